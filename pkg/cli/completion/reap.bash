# bash completion for reap
_reap() {
    local current="${COMP_WORDS[COMP_CWORD]}"
    local words=("${COMP_WORDS[@]:0:COMP_CWORD}")
    words[0]="${words[0]/#\~/$HOME}"
    if [[ $current == -* ]]; then
        words+=("$current")
    fi
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$current"))
}
complete -o bashdefault -o default -F _reap reap
