// The etcd server: the same entry point as the upstream command, whose own
// module can't be required beside Kubernetes' because it pins its neighbours by path.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
