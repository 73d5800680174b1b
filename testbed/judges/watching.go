package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

func watches(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		// Not config maps: controllers put one of theirs into every namespace.
		secrets := client.CoreV1().Secrets(ns)
		if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		list, err := secrets.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		all, err := secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
		if err != nil {
			return err
		}
		defer all.Stop()
		labelled, err := secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "on=yes"})
		if err != nil {
			return err
		}
		defer labelled.Stop()
		label := func(value string) error {
			_, err := secrets.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"on":`+value+`}}}`), metav1.PatchOptions{})
			return err
		}
		for _, value := range []string{`"yes"`, `"no"`, `"yes"`} {
			if err := label(value); err != nil {
				return err
			}
		}
		if err := secrets.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := expect(ctx, all, watch.Modified, watch.Modified, watch.Modified, watch.Deleted); err != nil {
			return fmt.Errorf("everything: %w", err)
		}
		if err := expect(ctx, labelled, watch.Added, watch.Deleted, watch.Added, watch.Deleted); err != nil {
			return fmt.Errorf("by label: %w", err)
		}
		one, err := client.CoreV1().Secrets("").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name=b,metadata.namespace=" + ns})
		if err != nil {
			return err
		}
		defer one.Stop()
		for _, name := range []string{"c", "b"} {
			if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		if err := expect(ctx, one, watch.Added); err != nil {
			return fmt.Errorf("by name: %w", err)
		}
		seconds := int64(1)
		short, err := secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, TimeoutSeconds: &seconds, FieldSelector: "metadata.name=none"})
		if err != nil {
			return err
		}
		select {
		case event, open := <-short.ResultChan():
			if open && event.Type == watch.Error {
				return fmt.Errorf("the end of a watch is an error: %v", event.Object)
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("a watch of one second does not end")
		}
	})
}

// expect reads events of these types, bookmarks aside; versions must grow.
func expect(ctx context.Context, events watch.Interface, wanted ...watch.EventType) error {
	for _, want := range wanted {
		for {
			select {
			case event, open := <-events.ResultChan():
				if !open {
					return fmt.Errorf("the watch ended, %s was expected", want)
				}
				if event.Type == watch.Bookmark {
					continue
				}
				if event.Type != want {
					return fmt.Errorf("%s instead of %s: %v", event.Type, want, event.Object)
				}
			case <-ctx.Done():
				return fmt.Errorf("%s never came", want)
			}
			break
		}
	}
	return nil
}

// told is what an informer told, as "add name", "update name", "delete name".
type told struct {
	mutex sync.Mutex
	seen  map[string]int
}

func (l *told) note(what string, object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.seen[what+" "+object.(metav1.Object).GetName()]++
}

func (l *told) has(what string) func() (bool, error) {
	return func() (bool, error) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		return l.seen[what] > 0, fmt.Errorf("seen so far: %v", l.seen)
	}
}

func follow(informer cache.SharedIndexInformer) *told {
	l := &told{seen: map[string]int{}}
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { l.note("add", object) },
		UpdateFunc: func(_, object any) { l.note("update", object) },
		DeleteFunc: func(object any) { l.note("delete", object) },
	})
	return l
}

// story is what an informer has to see.
func story(ctx context.Context, client *kubernetes.Clientset, ns string, informer cache.SharedIndexInformer) error {
	maps := client.CoreV1().ConfigMaps(ns)
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "before"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	seen := follow(informer)
	stop := make(chan struct{})
	defer close(stop)
	go informer.Run(stop)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the cache never synced")
	}
	if err := eventually(ctx, "what was there", seen.has("add before")); err != nil {
		return err
	}
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "what came", seen.has("add after")); err != nil {
		return err
	}
	if _, err := maps.Patch(ctx, "after", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "what changed", seen.has("update after")); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "before", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "what went", seen.has("delete before")); err != nil {
		return err
	}
	left := informer.GetStore().ListKeys()
	if len(left) != 1 && !contains(left, ns+"/after") {
		return fmt.Errorf("the store holds %v", left)
	}
	return nil
}

func contains(keys []string, key string) bool {
	for _, one := range keys {
		if one == key {
			return true
		}
	}
	return false
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func informers(ctx context.Context, g *ground) error {
	if err := inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		factory := clientinformers.NewSharedInformerFactoryWithOptions(client, 0, clientinformers.WithNamespace(ns))
		return story(ctx, client, ns, factory.Core().V1().ConfigMaps().Informer())
	}); err != nil {
		return fmt.Errorf("typed: %w", err)
	}
	g.suffix += "d"
	if err := inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(g.config), 0, ns, nil)
		return story(ctx, client, ns, factory.ForResource(configMaps).Informer())
	}); err != nil {
		return fmt.Errorf("dynamic: %w", err)
	}
	return nil
}

func metadataInformer(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		factory := metadatainformer.NewFilteredSharedInformerFactory(metadata.NewForConfigOrDie(g.config), 0, ns, nil)
		return story(ctx, client, ns, factory.ForResource(configMaps).Informer())
	})
}
