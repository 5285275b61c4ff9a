package report

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
)

// Command is a command line that would free an object, to be copied into a POSIX shell.
type Command struct {
	Command string `json:"command"`
	// Text says when that is right, and what it gives up.
	Text string `json:"text"`
}

// advised bounds how many holders get a command.
const advised = 3

// Advise sets Commands. Call it once the finalizers have been read. The flags direct a command of reap, and one of its
// kubectl, to the server that was asked; they are appended as they are.
func (y *Why) Advise(reapFlags, kubectlFlags string) {
	y.Commands = nil
	const reap, kubectl = "reap", "reap kubectl"
	add := func(text, program string, args ...string) {
		if line, ok := shellLine(program, args...); ok {
			line += map[string]string{reap: reapFlags, kubectl: kubectlFlags}[program]
			y.Commands = append(y.Commands, Command{line, visible(text)})
		}
	}
	// Only a deletion that the collector itself would go on with is freed by the end of a pause; to resume may be the end of
	// any other object, as after a restore.
	if y.Pause != nil && !y.DeletedAt.IsZero() && y.Action != decide.Nothing.String() {
		add("ends the pause, for all objects: 'reap lint -A' says first what else would be collected", reap, "resume")
	}
	held := y.HeldBy
	if y.Contents != nil {
		held = y.Contents.HeldBy
		for _, s := range y.Contents.Unavailable {
			add("if the server behind this API is gone for good: with the APIService, all that it served is given up", kubectl, "delete", "apiservice", s)
		}
	}
	if y.Contents != nil && !y.DeletedAt.IsZero() {
		for _, f := range y.Contents.SpecFinalizers[:min(len(y.Contents.SpecFinalizers), advised)] {
			add("if the controller that has to take "+f+" off cannot: gives up what it would clean up", reap, append(y.Object.args("release"), "--finalizer", f)...)
		}
	}
	if y.Reason == string(decide.BeingDeleted) && !y.Object.IsNamespace() {
		held = []Holder{{Object: y.Object, Reason: y.Reason, Finalizers: y.Finalizers}}
	}
	for _, h := range held[:min(len(held), advised)] {
		switch {
		case len(h.Finalizers) > 0:
			for _, f := range h.Finalizers[:min(len(h.Finalizers), advised)] {
				add("if the controller that has to take "+f+" off cannot: gives up what it would clean up", reap, append(h.Object.args("release"), "--finalizer", f)...)
			}
		case h.Reason == string(decide.BeingDeleted) && h.Object.GroupResource() == (schema.GroupResource{Resource: "pods"}):
			add("if its node is gone: the pod's containers may still run there", kubectl, append(h.Object.args("delete"), "--grace-period=0", "--force")...)
		case h.Reason == notDeletedYet:
			add("tries what the namespace's deletion does, and shows why it is refused", kubectl, h.Object.args("delete")...)
		case h.Object.UID != y.Object.UID:
			add("says more about what holds it", reap, h.Object.args("why")...)
		}
	}
	for i, o := range y.Owners {
		if o.State == decide.Unknown.String() || o.State == decide.Invalid.String() {
			add(fmt.Sprintf("drops the reference to %s %s, which nobody can judge: the other owners decide then, and without any the object stays for good", o.Kind, o.Name),
				kubectl, append(y.Object.args("patch"), "--type=json", "-p", dropPatch(i, types.UID(o.UID)))...)
		}
	}
	if y.BlockedBy.Count > 0 {
		add("the last resort: the object goes before its dependents, which are deleted after it, in the background", reap, y.Object.args("release")...)
	}
}

// dropPatch is a JSON patch that removes one reference, if it is the one that was seen.
func dropPatch(i int, uid types.UID) string {
	return fmt.Sprintf(`[{"op":"test","path":"/metadata/ownerReferences/%d/uid","value":%q},{"op":"remove","path":"/metadata/ownerReferences/%d"}]`, i, uid, i)
}

// args are the words of a command about the object.
func (o Object) args(verb string) []string {
	resource := o.Resource
	if o.Group != "" {
		resource += "." + o.Group
	}
	args := []string{verb, resource + "/" + o.Name}
	if o.Namespace != "" {
		args = append(args, "-n", o.Namespace)
	}
	return args
}

// plainWord is a word that no shell looks into.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@,+-]+$`)

// ShellWord quotes a word for a POSIX shell.
func ShellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// shellLine quotes words. Names can be anybody's: ok is false if one holds what a terminal does not show as it is.
func shellLine(program string, words ...string) (line string, ok bool) {
	line = program
	for _, w := range words {
		if strings.ContainsFunc(w, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return "", false
		}
		line += " " + ShellWord(w)
	}
	return line, true
}
