# fish completion for reap
function __reap_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    if string match -q -- '-*' $current
        set -a words $current
    end
    $words --generate-bash-completion 2>/dev/null
end
complete -c reap -a '(__reap_complete)'
