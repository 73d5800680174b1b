package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/ptr"
)

// initialEvents reads a watch that begins with what there is, in every kind of client.
func initialEvents(ctx context.Context, g *ground) error {
	return withBoats(ctx, g, func(client *kubernetes.Clientset, ns, group string) error {
		all := dynamic.NewForConfigOrDie(g.config)
		for i := range 3 {
			labels := map[string]string{"odd": fmt.Sprint(i%2 == 1)}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i), Labels: labels}}
			if _, err := client.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
				return err
			}
			made := boat(group, ns, fmt.Sprint("b", i), map[string]any{"masts": int64(1)})
			made.SetLabels(labels)
			if _, err := all.Resource(boatsOf(group)).Namespace(ns).Create(ctx, made, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		watchers := map[string]func(context.Context, metav1.ListOptions) (watch.Interface, error){
			"typed":         client.CoreV1().Secrets(ns).Watch,
			"dynamic":       all.Resource(secretsOf).Namespace(ns).Watch,
			"metadata":      metadata.NewForConfigOrDie(g.config).Resource(secretsOf).Namespace(ns).Watch,
			"custom":        all.Resource(boatsOf(group)).Namespace(ns).Watch,
			"custom, all":   all.Resource(boatsOf(group)).Watch,
			"custom, metas": metadata.NewForConfigOrDie(g.config).Resource(boatsOf(group)).Namespace(ns).Watch,
		}
		for what, start := range watchers {
			for selector, want := range map[string]int{"": 3, "odd=true": 1, "odd=none": 0} {
				for _, version := range []string{"", "0"} {
					if err := beginsWith(ctx, start, metav1.ListOptions{LabelSelector: selector, ResourceVersion: version}, want); err != nil {
						return fmt.Errorf("%s, selector %q, from %q: %w", what, selector, version, err)
					}
				}
			}
		}
		return nil
	})
}

// beginsWith reads so many objects, and then the bookmark that ends them.
func beginsWith(ctx context.Context, start func(context.Context, metav1.ListOptions) (watch.Interface, error), options metav1.ListOptions, want int) error {
	options.SendInitialEvents = ptr.To(true)
	options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	options.AllowWatchBookmarks = true
	events, err := start(ctx, options)
	if err != nil {
		return err
	}
	defer events.Stop()
	for seen := 0; ; seen++ {
		select {
		case event, open := <-events.ResultChan():
			switch {
			case !open:
				return fmt.Errorf("the watch ended after %d objects", seen)
			case event.Type == watch.Added:
				continue
			case event.Type != watch.Bookmark:
				return fmt.Errorf("%s: %v", event.Type, event.Object)
			}
			mark := event.Object.(metav1.Object)
			if mark.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" || mark.GetResourceVersion() == "" {
				return fmt.Errorf("the bookmark has annotations %v and version %q", mark.GetAnnotations(), mark.GetResourceVersion())
			}
			if seen != want {
				return fmt.Errorf("%d objects, not %d", seen, want)
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("no bookmark after %d objects", seen)
		}
	}
}

// revisions reads at versions other than the latest.
func revisions(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		var m must
		secrets := client.CoreV1().Secrets(ns)
		first, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		second, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		then, err := secrets.List(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		m.be(err == nil && len(then.Items) == 1 && then.ResourceVersion == first.ResourceVersion, "the list of then: %v %v", then, err)
		now, err := secrets.List(ctx, metav1.ListOptions{ResourceVersion: second.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
		m.be(err == nil && len(now.Items) == 2, "a list not older than then: %v %v", now, err)
		// Once: the client would ask again for most of a minute.
		err = client.CoreV1().RESTClient().Get().Namespace(ns).Resource("secrets").Param("resourceVersion", "999999999999").MaxRetries(0).Do(ctx).Error()
		m.be(err != nil && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge), "a list of the future: %v", err)
		got, err := secrets.Get(ctx, "b", metav1.GetOptions{ResourceVersion: "0"})
		m.be(err == nil && got.Name == "b", "any version of one: %v", err)

		// Bookmarks follow what is not selected.
		marks, err := secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: now.ResourceVersion, FieldSelector: "metadata.name=none", AllowWatchBookmarks: true, TimeoutSeconds: ptr.To(int64(3))})
		if err != nil {
			return err
		}
		defer marks.Stop()
		for event := range marks.ResultChan() {
			m.be(event.Type == watch.Bookmark, "%s: %v", event.Type, event.Object)
		}
		return m.err()
	})
}

// pages reads custom resources and metadata in pages, as controllers with large caches do.
func pages(ctx context.Context, g *ground) error {
	return withBoats(ctx, g, func(_ *kubernetes.Clientset, ns, group string) error {
		boats := dynamic.NewForConfigOrDie(g.config).Resource(boatsOf(group)).Namespace(ns)
		for i := range 13 {
			if _, err := boats.Create(ctx, boat(group, ns, fmt.Sprintf("b%02d", i), map[string]any{"masts": int64(i)}), metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		metas := metadata.NewForConfigOrDie(g.config).Resource(boatsOf(group)).Namespace(ns)
		for what, list := range map[string]func(context.Context, metav1.ListOptions) (runtime.Object, error){
			"dynamic":  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return boats.List(ctx, o) },
			"metadata": func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return metas.List(ctx, o) },
		} {
			p := pager.New(list)
			p.PageSize = 5
			var names []string
			err := p.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
				names = append(names, object.(metav1.Object).GetName())
				return nil
			})
			if err != nil || len(names) != 13 || names[0] != "b00" || names[12] != "b12" {
				return fmt.Errorf("%s: %v %v", what, names, err)
			}
		}
		return nil
	})
}

// cuttable is a way to a server that can be cut.
type cuttable struct {
	mutex sync.Mutex
	conns []net.Conn
}

func (c *cuttable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		c.mutex.Lock()
		c.conns = append(c.conns, conn)
		c.mutex.Unlock()
	}
	return conn, err
}

func (c *cuttable) cut() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// cutInformer follows by label, and its connections are cut between the changes.
func cutInformer(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		way := &cuttable{}
		config := rest.CopyConfig(g.config)
		config.Dial = way.dial
		factory := clientinformers.NewSharedInformerFactoryWithOptions(protobuf(config), 0, clientinformers.WithNamespace(ns),
			clientinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "on=yes" }))
		informer := factory.Core().V1().Secrets().Informer()
		seen := follow(informer)
		stop := make(chan struct{})
		defer close(stop)
		go informer.Run(stop)
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return fmt.Errorf("the cache never synced")
		}
		way.cut()
		on := map[string]string{"on": "yes"}
		if _, err := client.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: on}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := eventually(ctx, "what came while it was cut", seen.has("add s")); err != nil {
			return err
		}
		way.cut()
		if _, err := client.CoreV1().Secrets(ns).Patch(ctx, "s", types.MergePatchType, []byte(`{"metadata":{"labels":{"on":"no"}}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
		if err := eventually(ctx, "what left while it was cut", seen.has("delete s")); err != nil {
			return err
		}
		if left := informer.GetStore().ListKeys(); len(left) != 0 {
			return fmt.Errorf("the store holds %v", left)
		}
		return nil
	})
}

// discoveries asks in the old way and the new, and through a mapper that caches.
func discoveries(ctx context.Context, g *ground) error {
	return withBoats(ctx, g, func(client *kubernetes.Clientset, _, group string) error {
		var m must
		for what, one := range map[string]discovery.DiscoveryInterface{"aggregated": client.Discovery(), "plain": client.Discovery().WithLegacy()} {
			mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(one))
			kind := boatsOf(group).GroupVersion().WithKind("Boat")
			if err := eventually(ctx, what+" discovery of a definition", func() (bool, error) {
				mapping, err := mapper.RESTMapping(kind.GroupKind())
				if err != nil {
					mapper.Reset()
					return false, err
				}
				return mapping.Resource == boatsOf(group) && mapping.Scope.Name() == "namespace", fmt.Errorf("it is %v", mapping)
			}); err != nil {
				return err
			}
			_, lists, err := one.ServerGroupsAndResources()
			m.be(err == nil, "%s: %v", what, err)
			verbs := map[string]string{}
			for _, list := range lists {
				for _, resource := range list.APIResources {
					if list.GroupVersion == group+"/v1" {
						slices.Sort(resource.Verbs)
						verbs[resource.Name] = fmt.Sprint(resource.Kind, " ", resource.Namespaced, resource.Verbs)
					}
				}
			}
			m.be(verbs["boats"] == "Boat true [create delete deletecollection get list patch update watch]" && verbs["boats/status"] == "Boat true [get patch update]" && len(verbs) == 2, "%s: %v", what, verbs)
			preferred, err := discovery.ServerPreferredNamespacedResources(one)
			m.be(err == nil && len(preferred) > 3, "%s, preferred: %v", what, err)
			groups, err := one.ServerGroups()
			m.be(err == nil, "%s, groups: %v", what, err)
			for _, found := range groups.Groups {
				if found.Name == group {
					m.be(found.PreferredVersion.Version == "v1" && len(found.Versions) == 2, "%s: %v", what, found)
				}
			}
		}
		return m.err()
	})
}
