//go:build race && releasetest

package integration

func init() {
	underRace = append(underRace,
		"TestResourceThatCannotBeListedStopsNothing", // a monitor that fails, metrics and readiness
		"TestPause",                            // the gate, across a restart
		"TestCertificatesAreRenewedAndRotated", // certificates that are renewed under a server's hands
	)
}
