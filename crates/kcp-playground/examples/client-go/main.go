// A workspace, made with client-go in a kcp that `cargo run -p kcp-playground --example serve` has started:
//
//	go mod init example && go mod tidy
//	KUBECONFIG=kcp.kubeconfig go run main.go
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		log.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	resource := schema.GroupVersionResource{Group: "tenancy.kcp.io", Version: "v1alpha1", Resource: "workspaces"}
	workspaces := client.Resource(resource)
	ctx := context.Background()
	workspace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace",
		"metadata": map[string]any{"name": "team"},
	}}
	if _, err := workspaces.Create(ctx, workspace, metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	ready := func(ctx context.Context) (bool, error) {
		found, err := workspaces.Get(ctx, "team", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		url, _, err := unstructured.NestedString(found.Object, "spec", "URL")
		phase, _, _ := unstructured.NestedString(found.Object, "status", "phase")
		fmt.Println(phase, url)
		return phase == "Ready", err
	}
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Second, true, ready); err != nil {
		log.Fatal(err)
	}
}
