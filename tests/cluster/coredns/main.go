// Command coredns is CoreDNS with the few plugins that the test cluster needs; the stock program carries the
// client libraries of several clouds and takes minutes to build.
package main

import (
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	coremain.Run()
}
