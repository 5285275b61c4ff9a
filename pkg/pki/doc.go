// Package pki manages the files by which the API server proves its identity and
// authenticates its callers: three certificate authorities, the leaf certificates
// that they sign, and the key that signs service-account tokens.
//
//	<dir>                        0700
//	  server-ca.pem  server-ca.crt             ──signs──▶ serving.key      serving.crt
//	  client-ca.pem  client-ca.crt             ──signs──▶ admin.key        admin.crt
//	  front-proxy-ca.pem  front-proxy-ca.crt   ──signs──▶ front-proxy.key  front-proxy.crt
//	  service-account.key
//
// A .pem holds a CA's key and its certificate. A .pem and a .key have mode 0600. A
// .crt holds only certificates and has mode 0644. If a .pem holds a chain, NAME-ca-signer.crt
// is a copy of the CA's own certificate.
//
// # Power cuts
//
// Every file is replaced atomically (see writeAtomic). A power cut therefore
// leaves a state between two writes, never a half-written file. The order of the
// writes makes each such state unambiguous:
//
//   - A CA's key and certificate are one file, NAME-ca.pem. It is on the disk
//     before NAME-ca.crt, a copy of its certificate, is published and before
//     anything is signed. A .crt without its .pem is therefore an error: a key
//     that clients trust was lost, and not in a power cut. A .pem without its
//     .crt is completed.
//   - A leaf's key is put in place right before its certificate. A power cut
//     between the two leaves a pair that does not match; it is replaced.
//   - The service-account key is one file.
//
// # Promises
//
// Ensure never replaces a CA or the service-account key. It writes nothing when
// everything is in order, so it then works on a read-only file system. It may be
// called again while a server uses the files: kube-apiserver reloads them, and
// keeps the old pair if it reads the files between their two writes. Leaves hold
// no state: removing a leaf's files is always safe.
//
// Leaves that were made while the clock was wrong, before the release of this Kubernetes
// or ten years after it, are replaced once it may be right.
//
// Calls for one directory must not overlap. Callers hold Lock: servers and
// `reap certificate` alike.
//
// # Non-promises
//
// CAs are never rotated, not even by Rotate. To use your own CA, put its PEM key
// and certificate into NAME-ca.pem before a start. NAME-ca.crt may hold further
// certificates to be trusted. Leaves signed by another CA are replaced.
// docs/certificates.md has the steps.
package pki
