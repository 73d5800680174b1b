package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var kcpCases = []named{
	{"workspaces", workspaces},
	{"consumer-story", consumerStory},
	{"claims", claims},
	{"view-informer", viewInformer},
	{"hundred-workspaces", hundredWorkspaces},
	{"workspace-deletion", workspaceDeletion},
}

var (
	workspacesOf   = schema.GroupVersionResource{Group: "tenancy.kcp.io", Version: "v1alpha1", Resource: "workspaces"}
	schemas        = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apiresourceschemas"}
	exports        = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apiexports"}
	bindings       = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apibindings"}
	endpointSlices = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apiexportendpointslices"}
	crontabs       = schema.GroupVersionResource{Group: "judge.example.com", Version: "v1", Resource: "crontabs"}
	secretsOf      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// at is the configuration for another address of the same server.
func at(config *rest.Config, host string) *rest.Config {
	config = rest.CopyConfig(config)
	if !strings.HasPrefix(host, "https://") {
		base, _, _ := strings.Cut(config.Host, "/clusters/")
		host = base + "/clusters/" + host
	}
	config.Host = host
	return config
}

func in(g *ground, cluster string) dynamic.Interface {
	return dynamic.NewForConfigOrDie(at(g.config, cluster))
}

// workspace makes one and waits for it; its cluster.
func workspace(ctx context.Context, g *ground, parent, name string) (string, error) {
	client := in(g, parent).Resource(workspacesOf)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": map[string]any{"name": name},
	}}
	made, err := client.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	if phase, _, _ := unstructured.NestedString(made.Object, "status", "phase"); phase != "Scheduling" {
		return "", fmt.Errorf("a new workspace is %q", phase)
	}
	cluster := ""
	err = eventually(ctx, "workspace "+name, func() (bool, error) {
		found, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		cluster, _, _ = unstructured.NestedString(found.Object, "spec", "cluster")
		phase, _, _ := unstructured.NestedString(found.Object, "status", "phase")
		return phase == "Ready", fmt.Errorf("it is %s", phase)
	})
	return cluster, err
}

func workspaces(ctx context.Context, g *ground) error {
	var m must
	org := g.name("org")
	id, err := workspace(ctx, g, "root", org)
	if err != nil {
		return err
	}
	m.be(len(id) == 16, "the cluster is called %q", id)
	// Both ways in, by a typed client that speaks protobuf.
	for _, cluster := range []string{"root:" + org, id} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}
		made, err := protobuf(at(g.config, cluster)).CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		m.be(err == nil && made.Annotations["kcp.io/cluster"] == id, "%s: %v %v", cluster, made, err)
	}
	_, err = in(g, "root:nowhere").Resource(secretsOf).List(ctx, metav1.ListOptions{})
	m.be(apierrors.IsNotFound(err), "a path to nowhere: %v", err)
	_, err = in(g, "nowhere").Resource(secretsOf).List(ctx, metav1.ListOptions{})
	m.be(apierrors.IsForbidden(err), "an unknown cluster: %v", err)
	found, err := in(g, id).Resource(schema.GroupVersionResource{Group: "core.kcp.io", Version: "v1alpha1", Resource: "logicalclusters"}).Get(ctx, "cluster", metav1.GetOptions{})
	m.be(err == nil && found.GetAnnotations()["kcp.io/path"] == "root:"+org, "its path: %v", err)
	return m.err()
}

// provided is an organisation that exports crontabs, and a team that is bound to it.
type provided struct{ org, team, view string }

func provide(ctx context.Context, g *ground) (p provided, err error) {
	name := g.name("org")
	if p.org, err = workspace(ctx, g, "root", name); err != nil {
		return p, err
	}
	if p.team, err = workspace(ctx, g, "root:"+name, "team"); err != nil {
		return p, err
	}
	org, team := in(g, "root:"+name), in(g, "root:"+name+":team")
	document := map[string]any{"type": "object", "properties": map[string]any{
		"spec":   map[string]any{"type": "object", "properties": map[string]any{"cron": map[string]any{"type": "string"}}},
		"status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	}}
	if _, err = org.Resource(schemas).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": map[string]any{"name": "v1.crontabs.judge.example.com"},
		"spec": map[string]any{
			"group": "judge.example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "schema": document, "subresources": map[string]any{"status": map[string]any{}},
			}},
		},
	}}, metav1.CreateOptions{}); err != nil {
		return p, fmt.Errorf("schema: %w", err)
	}
	claim := map[string]any{"group": "", "resource": "secrets", "all": true}
	export, err := org.Resource(exports).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": map[string]any{"name": "tabs"},
		"spec": map[string]any{"latestResourceSchemas": []any{"v1.crontabs.judge.example.com"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return p, fmt.Errorf("export: %w", err)
	}
	// With the version of the answer: nothing may have written it since.
	_ = unstructured.SetNestedSlice(export.Object, []any{claim}, "spec", "permissionClaims")
	if _, err = org.Resource(exports).Update(ctx, export, metav1.UpdateOptions{}); err != nil {
		return p, fmt.Errorf("claiming: %w", err)
	}
	accepted := map[string]any{"group": "", "resource": "secrets", "all": true, "state": "Accepted"}
	if _, err = team.Resource(bindings).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding", "metadata": map[string]any{"name": "tabs"},
		"spec": map[string]any{
			"reference":        map[string]any{"export": map[string]any{"path": p.org, "name": "tabs"}},
			"permissionClaims": []any{accepted},
		},
	}}, metav1.CreateOptions{}); err != nil {
		return p, fmt.Errorf("binding: %w", err)
	}
	err = eventually(ctx, "the binding", func() (bool, error) {
		found, err := team.Resource(bindings).Get(ctx, "tabs", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		phase, _, _ := unstructured.NestedString(found.Object, "status", "phase")
		return phase == "Bound", fmt.Errorf("it is %v", found.Object["status"])
	})
	if err != nil {
		return p, err
	}
	err = eventually(ctx, "an endpoint", func() (bool, error) {
		slice, err := org.Resource(endpointSlices).Get(ctx, "tabs", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		endpoints, _, _ := unstructured.NestedSlice(slice.Object, "status", "endpoints")
		if len(endpoints) != 1 {
			return false, fmt.Errorf("endpoints: %v", endpoints)
		}
		p.view = endpoints[0].(map[string]any)["url"].(string) + "/clusters/"
		return true, nil
	})
	return p, err
}

func crontab(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "judge.example.com/v1", "kind": "CronTab",
		"metadata": map[string]any{"name": name, "namespace": "default"}, "spec": map[string]any{"cron": "* *"},
	}}
}

func consumerStory(ctx context.Context, g *ground) error {
	var m must
	p, err := provide(ctx, g)
	if err != nil {
		return err
	}
	team := in(g, p.team).Resource(crontabs).Namespace("default")
	everywhere := in(g, p.view+"*").Resource(crontabs)
	inView := in(g, p.view+p.team).Resource(crontabs).Namespace("default")
	list, err := everywhere.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	events, err := everywhere.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer events.Stop()
	made, err := team.Create(ctx, crontab("a"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	m.be(made.GetAnnotations()["kcp.io/cluster"] == p.team, "annotations of a create: %v", made.GetAnnotations())
	m.be(len(made.GetLabels()) == 0, "labels of a create: %v", made.GetLabels())
	if err := expect(ctx, events, watch.Added); err != nil {
		return err
	}
	seen, err := inView.Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		return err
	}
	seen.Object["status"] = map[string]any{"ready": true}
	if _, err := inView.UpdateStatus(ctx, seen, metav1.UpdateOptions{}); err != nil {
		return err
	}
	back, err := team.Get(ctx, "a", metav1.GetOptions{})
	ready, _, _ := unstructured.NestedBool(back.Object, "status", "ready")
	m.be(err == nil && ready, "its status: %v %v", back, err)
	if err := expect(ctx, events, watch.Modified); err != nil {
		return err
	}
	if err := team.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return expect(ctx, events, watch.Deleted)
}

func claims(ctx context.Context, g *ground) error {
	var m must
	p, err := provide(ctx, g)
	if err != nil {
		return err
	}
	made, err := protobuf(at(g.config, p.team)).CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": "b"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	m.be(len(made.Labels) == 1, "labels: %v", made.Labels)
	made.Data["c"] = []byte("d")
	_, err = protobuf(at(g.config, p.team)).CoreV1().Secrets("default").Update(ctx, made, metav1.UpdateOptions{})
	m.be(err == nil, "the version of the create's answer is stale: %v", err)
	if _, err := in(g, p.org).Resource(secretsOf).Namespace("default").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "unclaimed"},
	}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	list, err := in(g, p.view+"*").Resource(secretsOf).List(ctx, metav1.ListOptions{})
	m.be(err == nil && len(list.Items) == 1 && list.Items[0].GetName() == "s", "claimed secrets: %v %v", list, err)
	_, err = in(g, p.view+p.org).Resource(secretsOf).Namespace("default").Get(ctx, "unclaimed", metav1.GetOptions{})
	m.be(apierrors.IsForbidden(err), "a cluster that is not bound: %v", err)
	_, err = in(g, p.view+p.team).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default").List(ctx, metav1.ListOptions{})
	m.be(apierrors.IsForbidden(err), "what is not claimed: %v", err)
	ns, err := protobuf(at(g.config, p.team)).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, metav1.CreateOptions{})
	m.be(err == nil && len(ns.Annotations) == 1, "a namespace: %v", err)
	groups, err := protobuf(at(g.config, p.view+"*")).Discovery().ServerGroups()
	m.be(err == nil && len(groups.Groups) == 3, "groups of the view: %v %v", groups, err)
	return m.err()
}

func viewInformer(ctx context.Context, g *ground) error {
	p, err := provide(ctx, g)
	if err != nil {
		return err
	}
	team := in(g, p.team).Resource(crontabs).Namespace("default")
	if _, err := team.Create(ctx, crontab("before"), metav1.CreateOptions{}); err != nil {
		return err
	}
	informer := dynamicinformer.NewDynamicSharedInformerFactory(in(g, p.view+"*"), 0).ForResource(crontabs).Informer()
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
	if _, err := team.Create(ctx, crontab("after"), metav1.CreateOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "what came", seen.has("add after"))
}

func hundredWorkspaces(ctx context.Context, g *ground) error {
	name := g.name("org")
	if _, err := workspace(ctx, g, "root", name); err != nil {
		return err
	}
	failures := make(chan error, 100)
	ids := make(chan string, 100)
	for i := range 100 {
		go func() {
			id, err := workspace(ctx, g, "root:"+name, fmt.Sprint("w", i))
			failures <- err
			ids <- id
		}()
	}
	seen := map[string]bool{}
	for range 100 {
		if err := <-failures; err != nil {
			return err
		}
		seen[<-ids] = true
	}
	if len(seen) != 100 {
		return fmt.Errorf("%d ids for 100 workspaces", len(seen))
	}
	return nil
}

func workspaceDeletion(ctx context.Context, g *ground) error {
	p, err := provide(ctx, g)
	if err != nil {
		return err
	}
	if _, err := in(g, p.team).Resource(crontabs).Namespace("default").Create(ctx, crontab("a"), metav1.CreateOptions{}); err != nil {
		return err
	}
	client := in(g, "root").Resource(workspacesOf)
	if err := client.Delete(ctx, g.name("org"), metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "the workspace to go", func() (bool, error) {
		_, err := client.Get(ctx, g.name("org"), metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	}); err != nil {
		return err
	}
	_, err = in(g, p.team).Resource(secretsOf).List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("a cluster of a workspace that is gone: %v", err)
	}
	return nil
}
