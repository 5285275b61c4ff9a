# fish completion for reap
function __reap_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    if test "$words[2]" = kubectl
        # kubectl completes its own arguments: it prints candidates, then a line with what to do about them.
        set -l asked $words
        set -e asked[1..2]
        set -l flag (string match -r -- '^-.*=' $current)
        for line in (KUBECTL_ACTIVE_HELP=0 $words[1] kubectl __complete $asked "$current" 2>/dev/null)
            if not string match -q -r -- '^:[0-9]+$' $line
                echo "$flag$line"
            end
        end
        return
    end
    if string match -q -- '-*' $current
        set -a words $current
    end
    $words --generate-bash-completion 2>/dev/null
end
complete -c reap -a '(__reap_complete)'
