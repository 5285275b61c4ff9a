#compdef reap
# zsh completion for reap
_reap() {
    local -a asked choices
    asked=("${(@)words[1,CURRENT-1]}")
    if [[ ${words[CURRENT]} == -* ]]; then
        asked+=("${words[CURRENT]}")
    fi
    choices=("${(@f)$("${asked[@]}" --generate-bash-completion 2>/dev/null)}")
    if [[ -n ${choices[1]} ]]; then
        compadd -- "${choices[@]}"
    else
        _files
    fi
}
if [[ ${funcstack[1]} == _reap ]]; then
    _reap "$@"
else
    compdef _reap reap
fi
