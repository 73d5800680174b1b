package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	connections = 4
	writers     = 64
	created     = 10_000
	watchers    = 100
	written     = 300
)

// connect gives clients with a connection of their own each.
func connect(config *rest.Config) []*kubernetes.Clientset {
	var clients []*kubernetes.Clientset
	for i := range connections {
		config := rest.CopyConfig(config)
		config.QPS, config.Burst = -1, 0
		// How fast a server serves, not how fast both ends pack.
		config.DisableCompression = true
		// Transports are shared between equal configurations; another timeout makes another.
		config.Timeout = time.Hour + time.Duration(i)*time.Second
		clients = append(clients, kubernetes.NewForConfigOrDie(config))
	}
	return clients
}

// bench measures a server and prints what it found as one line of JSON.
func bench(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(_ *kubernetes.Clientset, ns string) error {
		clients := connect(g.config)
		found := map[string]any{}
		if err := benchCreates(ctx, clients, ns, found); err != nil {
			return err
		}
		if err := benchList(ctx, clients[0], ns, found); err != nil {
			return err
		}
		if err := benchWatchers(ctx, clients, ns, found); err != nil {
			return err
		}
		text, _ := json.Marshal(found)
		fmt.Println(string(text))
		return nil
	})
}

func benchCreates(ctx context.Context, clients []*kubernetes.Clientset, ns string, found map[string]any) error {
	payload := strings.Repeat("x", 2048)
	work := make(chan int)
	failures := make(chan error, writers)
	var waiting sync.WaitGroup
	started := time.Now()
	for w := range writers {
		waiting.Go(func() {
			maps := clients[w%connections].CoreV1().ConfigMaps(ns)
			for i := range work {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%05d", i)}, Data: map[string]string{"x": payload}}
				if _, err := maps.Create(ctx, cm, metav1.CreateOptions{}); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	for i := range created {
		select {
		case work <- i:
		case err := <-failures:
			close(work)
			return err
		}
	}
	close(work)
	waiting.Wait()
	found["creates_per_second"] = float64(created) / time.Since(started).Seconds()
	return nil
}

func benchList(ctx context.Context, client *kubernetes.Clientset, ns string, found map[string]any) error {
	var times []time.Duration
	for range 5 {
		started := time.Now()
		body, err := client.CoreV1().RESTClient().Get().Namespace(ns).Resource("configmaps").Param("resourceVersion", "0").DoRaw(ctx)
		if err != nil {
			return err
		}
		times = append(times, time.Since(started))
		found["list_megabytes"] = float64(len(body)) / 1e6
	}
	slices.Sort(times)
	found["list_seconds"] = times[len(times)/2].Seconds()
	return nil
}

func benchWatchers(ctx context.Context, clients []*kubernetes.Clientset, ns string, found map[string]any) error {
	maps := clients[0].CoreV1().ConfigMaps(ns)
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "watched", Labels: map[string]string{"watched": "yes"}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "watched=yes"})
	if err != nil {
		return err
	}
	type arrival struct {
		n  string
		at time.Time
	}
	arrivals := make(chan arrival, watchers*written)
	for w := range watchers {
		events, err := clients[w%connections].CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			return err
		}
		defer events.Stop()
		go func() {
			for event := range events.ResultChan() {
				if cm, ok := event.Object.(*corev1.ConfigMap); ok {
					arrivals <- arrival{cm.Data["n"], time.Now()}
				}
			}
		}()
	}
	var latencies []time.Duration
	for n := range written {
		began := time.Now()
		patch := fmt.Sprintf(`{"data":{"n":"%d"}}`, n)
		if _, err := maps.Patch(ctx, "watched", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
		for range watchers {
			select {
			case a := <-arrivals:
				if a.n != fmt.Sprint(n) {
					return fmt.Errorf("event %s while waiting for %d", a.n, n)
				}
				latencies = append(latencies, a.at.Sub(began))
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	slices.Sort(latencies)
	found["watch_p50_ms"] = float64(latencies[len(latencies)/2].Microseconds()) / 1000
	found["watch_p99_ms"] = float64(latencies[len(latencies)*99/100].Microseconds()) / 1000
	return nil
}
