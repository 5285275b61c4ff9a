# bash completion for reap
_reap() {
    local current="${COMP_WORDS[COMP_CWORD]}"
    local words=("${COMP_WORDS[@]:0:COMP_CWORD}")
    words[0]="${words[0]/#\~/$HOME}"
    if [[ ${words[1]} == kubectl ]]; then
        _reap_kubectl
        return
    fi
    if [[ $current == -* ]]; then
        words+=("$current")
    fi
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$current"))
}

# kubectl completes its own arguments: it prints candidates, then a line with what to do about them.
_reap_kubectl() {
    COMPREPLY=()
    # bash has taken --flag=value apart.
    local word glue= asked=()
    for word in "${COMP_WORDS[@]:2:COMP_CWORD-1}"; do
        if [[ ${#asked[@]} -gt 0 && ( -n $glue || $word =~ ^[=:]+$ ) ]]; then
            asked[-1]+=$word
        else
            asked+=("$word")
        fi
        glue=
        [[ ! $word =~ ^[=:]+$ ]] || glue=yes
    done
    [[ -z $glue ]] || current=

    local lines directive line
    mapfile -t lines < <(KUBECTL_ACTIVE_HELP=0 "${words[0]}" kubectl __completeNoDesc "${asked[@]}" 2>/dev/null)
    [[ ${#lines[@]} -gt 0 && ${lines[-1]} == :* ]] || return
    directive=${lines[-1]#:}
    unset 'lines[-1]'
    # The bits are cobra's: 1 error, 2 no space, 4 no files, 8 files of some kinds, 16 directories.
    if ((directive & 1)); then return; fi
    if ((directive & 2)); then compopt -o nospace 2>/dev/null; fi
    if ((directive & 4)); then compopt +o bashdefault +o default 2>/dev/null; fi
    if ((directive & 16)); then compopt -o dirnames 2>/dev/null; fi
    if ((directive & 24)); then return; fi
    for line in "${lines[@]}"; do
        if [[ $line == "$current"* ]]; then COMPREPLY+=("$line"); fi
    done
}
complete -o bashdefault -o default -F _reap reap
