// Package pki keeps what the API server needs to prove who it is and to know
// its callers: three certificate authorities of its own, the certificates that
// they sign, and the key that signs service-account tokens.
//
//	<dir>                        0700
//	  server-ca.pem  server-ca.crt             ──signs──▶ serving.key      serving.crt
//	  client-ca.pem  client-ca.crt             ──signs──▶ admin.key        admin.crt
//	  front-proxy-ca.pem  front-proxy-ca.crt   ──signs──▶ front-proxy.key  front-proxy.crt
//	  service-account.key
//
// A .pem is a CA's key with its certificate; it and a .key have mode 0600. A .crt
// holds certificates alone and has mode 0644.
//
// # Power cuts
//
// Every file is replaced whole (see writeAtomic), so a cut leaves a state
// between two writes, never a half-written file. The order makes each such
// state unambiguous:
//
//   - A CA's key and certificate are one file, NAME-ca.pem. It is on the disk
//     before NAME-ca.crt, a copy of its certificate, is published and before
//     anything is signed. A .crt without its .pem is therefore never the work of
//     a cut but the loss of a key that clients trust: an error. A .pem without
//     its .crt is completed.
//   - A leaf's key takes its place right before its certificate. Whatever a cut
//     leaves, a pair that is not whole does not match and is made anew.
//   - The service-account key is one file.
//
// # Promises
//
// Ensure never replaces a CA or the service-account key. It writes nothing when
// everything is in order, so it works on a read-only file system then. It may be
// called again while a server uses the files: kube-apiserver reloads them, and
// keeps what it had if it reads a pair between its two writes. Leaves hold no
// state: removing a leaf's files is always safe.
//
// One call at a time per directory: the caller holds Lock, `reap certificate` as
// well as a server.
//
// # Non-promises
//
// CAs are not rotated, by Rotate neither. To bring one's own, put its PEM key and
// certificate into NAME-ca.pem before a start; NAME-ca.crt may hold further
// certificates that are to be trusted beside it. Leaves that another CA signed are
// replaced. docs/certificates.md has the steps.
package pki
