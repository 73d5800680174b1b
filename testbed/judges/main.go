// Command judges runs client-go and controller-runtime against a server, case by case.
//
//	judges -kubeconfig FILE [-kcp] [-cases NAME,...]
//	judges -kubeconfig FILE -bench
//
// Every case is one line of JSON on stdout; the exit code is 1 if one failed. A benchmark says what it
// measured in one such line.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// patience is what one case may take.
const patience = 3 * time.Minute

// ground is what a case stands on.
type ground struct {
	config *rest.Config
	// suffix tells the objects of this run from those of others.
	suffix string
}

func (g *ground) name(what string) string { return what + "-" + g.suffix }

type check func(context.Context, *ground) error

type named struct {
	name string
	run  check
}

func main() {
	// Not the common flags: controller-runtime has put one of this name there.
	flags := flag.NewFlagSet("judges", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the server, and who asks")
	wanted := flags.String("cases", "", "some cases only, by name")
	kcp := flags.Bool("kcp", false, "the cases of kcp instead of those of a cluster")
	measure := flags.Bool("bench", false, "measure instead of judging")
	_ = flags.Parse(os.Args[1:])
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, "judges:", err)
		os.Exit(2)
	}
	// The default of client-go is five requests a second, which only measures patience.
	config.QPS, config.Burst = 1000, 1000

	if *measure {
		if err := judge(config, named{"bench", bench}); err != nil {
			fmt.Fprintln(os.Stderr, "judges:", err)
			os.Exit(1)
		}
		return
	}
	cases := clusterCases
	if *kcp {
		cases = kcpCases
	}
	failed := false
	for _, one := range cases {
		if *wanted != "" && !slices.Contains(strings.Split(*wanted, ","), one.name) {
			continue
		}
		started := time.Now()
		err := judge(config, one)
		line := map[string]any{"case": one.name, "ok": err == nil, "seconds": time.Since(started).Seconds()}
		if err != nil {
			failed = true
			line["detail"] = err.Error()
		}
		text, _ := json.Marshal(line)
		fmt.Println(string(text))
	}
	if failed {
		os.Exit(1)
	}
}

func judge(config *rest.Config, one named) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	letters := "bcdfghjklmnpqrstvwxz"
	suffix := make([]byte, 6)
	for i := range suffix {
		suffix[i] = letters[rand.IntN(len(letters))]
	}
	return one.run(ctx, &ground{config: rest.CopyConfig(config), suffix: string(suffix)})
}

// eventually asks until it gets what it wants, or the case runs out of time.
func eventually(ctx context.Context, what string, done func() (bool, error)) error {
	var last error
	for {
		ok, err := done()
		if ok {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %v", what, last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// must collects complaints, so that one case can tell of several.
type must struct{ complaints []string }

func (m *must) be(ok bool, format string, args ...any) {
	if !ok {
		m.complaints = append(m.complaints, fmt.Sprintf(format, args...))
	}
}

func (m *must) err() error {
	if len(m.complaints) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(m.complaints, "; "))
}
