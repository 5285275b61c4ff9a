#compdef reap
# zsh completion for reap
_reap() {
    if (( CURRENT > 2 )) && [[ ${words[2]} == kubectl ]]; then
        _reap_kubectl
        return
    fi
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

# kubectl completes its own arguments: it prints candidates, then a line with what to do about them.
_reap_kubectl() {
    local -a asked lines space
    local directive
    asked=("${(@Q)words[3,CURRENT-1]}" "$PREFIX")
    lines=("${(@f)$(KUBECTL_ACTIVE_HELP=0 "${words[1]}" kubectl __completeNoDesc "${asked[@]}" 2>/dev/null)}")
    [[ ${lines[-1]} == :<-> ]] || return 1
    directive=${lines[-1]#:}
    lines[-1]=()
    # The bits are cobra's: 1 error, 2 no space, 4 no files, 8 files of some kinds, 16 directories.
    if (( directive & 1 )); then
        return 1
    elif (( directive & 16 )); then
        _files -/
    elif (( directive & 8 )) || (( ! ${#lines} && ! (directive & 4) )); then
        _files
    else
        if (( directive & 2 )); then space=(-S ''); fi
        if [[ $PREFIX == -*=* ]]; then compset -P '*='; fi
        compadd "${space[@]}" -- "${lines[@]}"
    fi
}
if [[ ${funcstack[1]} == _reap ]]; then
    _reap "$@"
else
    compdef _reap reap
fi
