package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// answer is what can be told apart by programs: the status code, the reason, and the fields that the
// causes name.
type answer struct {
	code   int
	reason metav1.StatusReason
	fields string
}

// request is one request and the answer that it has to get. NS, UID and GROUP in its path and body
// stand for those of the case.
type request struct {
	what, verb, path, contentType, body string

	want answer
	// also is a difference that is tolerated, and because says why.
	also    answer
	because string
}

const (
	plainJSON     = "application/json"
	mergePatch    = "application/merge-patch+json"
	jsonPatch     = "application/json-patch+json"
	strategic     = "application/strategic-merge-patch+json"
	configMapPath = "/api/v1/namespaces/NS/configmaps"
	boatPath      = "/apis/GROUP/v1/namespaces/NS/boats"
)

// answers asks, and compares code, reason and fields.
func answers(ctx context.Context, g *ground, requests []request, replacer *strings.Replacer) error {
	client, err := rest.HTTPClientFor(g.config)
	if err != nil {
		return err
	}
	var m must
	for _, r := range requests {
		got, message, err := ask(ctx, client, g.config.Host, r, replacer)
		if err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		m.be(got == r.want || (r.because != "" && got == r.also), "%s: %v instead of %v (%s)", r.what, got, r.want, message)
	}
	return m.err()
}

func ask(ctx context.Context, client *http.Client, host string, r request, replacer *strings.Replacer) (answer, string, error) {
	made, err := http.NewRequestWithContext(ctx, r.verb, strings.TrimSuffix(host, "/")+replacer.Replace(r.path), strings.NewReader(replacer.Replace(r.body)))
	if err != nil {
		return answer{}, "", err
	}
	made.Header.Set("Accept", plainJSON)
	if r.body != "" {
		made.Header.Set("Content-Type", r.contentType)
	}
	got, err := client.Do(made)
	if err != nil {
		return answer{}, "", err
	}
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return answer{}, "", err
	}
	var status metav1.Status
	if got.StatusCode < 400 || json.Unmarshal(body, &status) != nil || status.Kind != "Status" {
		return answer{code: got.StatusCode}, "", nil
	}
	if int(status.Code) != got.StatusCode {
		return answer{}, "", fmt.Errorf("the body says %d, the header %d", status.Code, got.StatusCode)
	}
	var fields []string
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			fields = append(fields, cause.Field)
		}
	}
	slices.Sort(fields)
	return answer{got.StatusCode, status.Reason, strings.Join(slices.Compact(fields), ",")}, status.Message, nil
}

// rawRequests asks what no typed client would.
func rawRequests(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		made, err := client.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return answers(ctx, g, plainRequests, strings.NewReplacer("NS", ns, "UID", string(made.UID)))
	})
}

// rawCustomRequests asks the same of custom resources.
func rawCustomRequests(ctx context.Context, g *ground) error {
	return withBoats(ctx, g, func(_ *kubernetes.Clientset, ns, group string) error {
		client := dynamic.NewForConfigOrDie(g.config).Resource(boatsOf(group)).Namespace(ns)
		made, err := client.Create(ctx, boat(group, ns, "a", map[string]any{"masts": int64(2)}), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return answers(ctx, g, customRequests, strings.NewReplacer("NS", ns, "UID", string(made.GetUID()), "GROUP", group))
	})
}
