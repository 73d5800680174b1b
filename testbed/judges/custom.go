package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// boats is a definition in a group of the case's own.
func boats(group string) *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Required: []string{"masts"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"masts": {Type: "integer", Minimum: ptr.To(0.0)},
			"rig":   {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"sloop"`)}, Enum: []apiextensionsv1.JSON{{Raw: []byte(`"sloop"`)}, {Raw: []byte(`"ketch"`)}}},
			"crew":  {Type: "array", XListType: ptr.To("set"), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text}},
		}},
		"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"afloat": {Type: "boolean"}}},
	}}
	version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "boats." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "boats", Kind: "Boat"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v1beta1", false)},
		},
	}
}

func boat(group, ns, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Boat", "metadata": map[string]any{"name": name, "namespace": ns}, "spec": spec,
	}}
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// withBoats runs with a namespace and the established definition.
func withBoats(ctx context.Context, g *ground, run func(*kubernetes.Clientset, string, string) error) error {
	return inNamespace(ctx, g, func(typed *kubernetes.Clientset, ns string) error {
		group := g.suffix + ".judge.example.com"
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(boats(group))
		if err != nil {
			return err
		}
		crd := &unstructured.Unstructured{Object: object}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		client := dynamic.NewForConfigOrDie(g.config)
		if _, err := client.Resource(definitions).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("definition: %w", err)
		}
		defer func() {
			_ = client.Resource(definitions).Delete(context.Background(), crd.GetName(), metav1.DeleteOptions{})
		}()
		if err := eventually(ctx, "the definition to be established", func() (bool, error) {
			found, err := client.Resource(definitions).Get(ctx, crd.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
			for _, condition := range conditions {
				if c := condition.(map[string]any); c["type"] == "Established" && c["status"] == "True" {
					return true, nil
				}
			}
			return false, fmt.Errorf("conditions: %v", conditions)
		}); err != nil {
			return err
		}
		// Discovery may lag a moment behind the condition.
		if err := eventually(ctx, "the resource to be served", func() (bool, error) {
			_, err := client.Resource(boatsOf(group)).Namespace(ns).List(ctx, metav1.ListOptions{})
			return err == nil, err
		}); err != nil {
			return err
		}
		return run(typed, ns, group)
	})
}

func boatsOf(group string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "boats"}
}

func customResources(ctx context.Context, g *ground) error {
	return withBoats(ctx, g, func(_ *kubernetes.Clientset, ns, group string) error {
		var m must
		all := dynamic.NewForConfigOrDie(g.config)
		client := all.Resource(boatsOf(group)).Namespace(ns)
		sent := boat(group, ns, "a", map[string]any{"masts": int64(2), "colour": "red"})
		sent.Object["status"] = map[string]any{"afloat": true}
		made, err := client.Create(ctx, sent, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		spec := made.Object["spec"].(map[string]any)
		m.be(spec["rig"] == "sloop", "not defaulted: %v", spec)
		m.be(spec["colour"] == nil, "not pruned: %v", spec)
		m.be(made.Object["status"] == nil, "the status of a create was kept: %v", made.Object["status"])
		m.be(made.GetGeneration() == 1, "generation %d", made.GetGeneration())
		_, err = client.Create(ctx, boat(group, ns, "strict", map[string]any{"masts": int64(2), "colour": "red"}), metav1.CreateOptions{FieldValidation: "Strict"})
		m.be(apierrors.IsBadRequest(err), "an unknown field, strictly: %v", err)
		_, err = client.Create(ctx, boat(group, ns, "b", map[string]any{"masts": int64(-1), "rig": "raft", "crew": []any{"x", "x"}}), metav1.CreateOptions{})
		m.be(apierrors.IsInvalid(err), "wrong values: %v", err)
		fields := map[string]bool{}
		if status, ok := err.(apierrors.APIStatus); ok && status.Status().Details != nil {
			m.be(status.Status().Details.Kind == "Boat" && status.Status().Details.Group == group, "details: %v", status.Status().Details)
			for _, cause := range status.Status().Details.Causes {
				fields[cause.Field] = true
			}
		}
		m.be(fields["spec.masts"] && fields["spec.rig"], "causes: %v", fields)
		_, err = client.Create(ctx, boat(group, ns, "c", map[string]any{}), metav1.CreateOptions{})
		m.be(apierrors.IsInvalid(err), "a missing field: %v", err)

		stated := made.DeepCopy()
		stated.Object["status"] = map[string]any{"afloat": true}
		stated.Object["spec"].(map[string]any)["masts"] = int64(9)
		stated, err = client.UpdateStatus(ctx, stated, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		masts, _, _ := unstructured.NestedInt64(stated.Object, "spec", "masts")
		m.be(masts == 2 && stated.GetGeneration() == 1, "a status update wrote masts %d, generation %d", masts, stated.GetGeneration())
		next := stated.DeepCopy()
		next.Object["spec"].(map[string]any)["masts"] = int64(3)
		delete(next.Object, "status")
		next, err = client.Update(ctx, next, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		afloat, _, _ := unstructured.NestedBool(next.Object, "status", "afloat")
		m.be(afloat && next.GetGeneration() == 2, "an update left afloat %v, generation %d", afloat, next.GetGeneration())
		versionless := next.DeepCopy()
		versionless.SetResourceVersion("")
		_, err = client.Update(ctx, versionless, metav1.UpdateOptions{})
		m.be(apierrors.IsInvalid(err), "an update without a version: %v", err)
		_, err = client.Update(ctx, made, metav1.UpdateOptions{})
		m.be(apierrors.IsConflict(err), "a stale update: %v", err)
		_, err = client.Update(ctx, boat(group, ns, "none", map[string]any{"masts": int64(1)}), metav1.UpdateOptions{})
		m.be(err != nil, "an update of what is missing was taken")
		_, err = client.Patch(ctx, "a", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
		m.be(apierrors.IsUnsupportedMediaType(err), "a strategic patch: %v", err)
		patched, err := client.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"masts":9007199254740993}}`), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		masts, _, _ = unstructured.NestedInt64(patched.Object, "spec", "masts")
		m.be(masts == 9007199254740993, "a large integer came back as %d", masts)
		other := boatsOf(group)
		other.Version = "v1beta1"
		seen, err := all.Resource(other).Namespace(ns).Get(ctx, "a", metav1.GetOptions{})
		m.be(err == nil && seen.GetAPIVersion() == group+"/v1beta1", "the other version: %v", err)

		events, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: patched.GetResourceVersion()})
		if err != nil {
			return err
		}
		defer events.Stop()
		if err := all.Resource(definitions).Delete(ctx, "boats."+group, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := eventually(ctx, "the resource to be gone", func() (bool, error) {
			_, err := client.List(ctx, metav1.ListOptions{})
			return apierrors.IsNotFound(err), err
		}); err != nil {
			return err
		}
		return m.err()
	})
}

// sailor makes a config map for each boat and says when it is afloat.
type sailor struct {
	client.Client
	group string
}

const mooring = "judge.example.com/mooring"

func (s *sailor) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	boat := newBoat(s.group)
	if err := s.Get(ctx, request.NamespacedName, boat); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !boat.GetDeletionTimestamp().IsZero() {
		controllerutil.RemoveFinalizer(boat, mooring)
		return ctrl.Result{}, s.Update(ctx, boat)
	}
	if controllerutil.AddFinalizer(boat, mooring) {
		return ctrl.Result{}, s.Update(ctx, boat)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: boat.GetName(), Namespace: boat.GetNamespace()}}
	if _, err := controllerutil.CreateOrUpdate(ctx, s.Client, cm, func() error {
		masts, _, _ := unstructured.NestedInt64(boat.Object, "spec", "masts")
		cm.Data = map[string]string{"masts": fmt.Sprint(masts)}
		return controllerutil.SetControllerReference(boat, cm, s.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	if afloat, _, _ := unstructured.NestedBool(boat.Object, "status", "afloat"); !afloat {
		_ = unstructured.SetNestedField(boat.Object, true, "status", "afloat")
		return ctrl.Result{}, s.Status().Update(ctx, boat)
	}
	return ctrl.Result{}, nil
}

func newBoat(group string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(group + "/v1")
	object.SetKind("Boat")
	return object
}

func newManager(g *ground, ns, group string, options ctrl.Options) (ctrl.Manager, error) {
	options.Scheme = clientscheme.Scheme
	options.Metrics = server.Options{BindAddress: "0"}
	options.Controller = config.Controller{SkipNameValidation: ptr.To(true)}
	m, err := ctrl.NewManager(g.config, options)
	if err != nil {
		return nil, err
	}
	s := &sailor{Client: m.GetClient(), group: group}
	return m, ctrl.NewControllerManagedBy(m).Named("sailor").For(newBoat(group)).Owns(&corev1.ConfigMap{}).Complete(s)
}

// sail creates a boat and waits for what a manager makes of it.
func sail(ctx context.Context, g *ground, typed *kubernetes.Clientset, ns, group, name string) error {
	boats := dynamic.NewForConfigOrDie(g.config).Resource(boatsOf(group)).Namespace(ns)
	if _, err := boats.Create(ctx, boat(group, ns, name, map[string]any{"masts": int64(2)}), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, name+" to be afloat", func() (bool, error) {
		found, err := boats.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		afloat, _, _ := unstructured.NestedBool(found.Object, "status", "afloat")
		return afloat, fmt.Errorf("it is %v", found.Object)
	}); err != nil {
		return err
	}
	cm, err := typed.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil || cm.Data["masts"] != "2" || len(cm.OwnerReferences) != 1 {
		return fmt.Errorf("its config map: %v %v", cm, err)
	}
	// A change of what is owned wakes its owner.
	if _, err := typed.CoreV1().ConfigMaps(ns).Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"masts":"wrong"}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "its config map to be mended", func() (bool, error) {
		cm, err := typed.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
		return err == nil && cm.Data["masts"] == "2", err
	}); err != nil {
		return err
	}
	if err := boats.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, name+" to go", func() (bool, error) {
		_, err := boats.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

func manager(ctx context.Context, g *ground) error {
	return withBoats(ctx, g, func(typed *kubernetes.Clientset, ns, group string) error {
		m, err := newManager(g, ns, group, ctrl.Options{})
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- m.Start(running) }()
		err = sail(ctx, g, typed, ns, group, "kestrel")
		stop()
		if end := <-ended; err == nil {
			err = end
		}
		return err
	})
}

func leaderElection(ctx context.Context, g *ground) error {
	return withBoats(ctx, g, func(typed *kubernetes.Clientset, ns, group string) error {
		options := func() ctrl.Options {
			return ctrl.Options{
				LeaderElection: true, LeaderElectionID: "judge", LeaderElectionNamespace: ns, LeaderElectionReleaseOnCancel: true,
				// On a slow machine, too, the Lease goes from one to the other only when it is given up.
				LeaseDuration: ptr.To(time.Minute), RenewDeadline: ptr.To(40 * time.Second), RetryPeriod: ptr.To(200 * time.Millisecond),
			}
		}
		var managers []ctrl.Manager
		var stops []context.CancelFunc
		var ends []chan error
		for range 2 {
			m, err := newManager(g, ns, group, options())
			if err != nil {
				return err
			}
			running, stop := context.WithCancel(ctx)
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- m.Start(running) }()
			managers, stops, ends = append(managers, m), append(stops, stop), append(ends, ended)
		}
		leader := 0
		select {
		case <-managers[0].Elected():
		case <-managers[1].Elected():
			leader = 1
		case <-ctx.Done():
			return fmt.Errorf("nobody was elected")
		}
		select {
		case <-managers[1-leader].Elected():
			return fmt.Errorf("both were elected")
		default:
		}
		if err := sail(ctx, g, typed, ns, group, "first"); err != nil {
			return err
		}
		stops[leader]()
		<-ends[leader]
		select {
		case <-managers[1-leader].Elected():
		case <-ctx.Done():
			return fmt.Errorf("nobody took over")
		}
		return sail(ctx, g, typed, ns, group, "second")
	})
}
