package main

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// kinds are those that controllers use most, with the list of each.
func kinds(ns string) map[client.Object]client.ObjectList {
	rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}
	return map[client.Object]client.ObjectList{
		&corev1.Secret{Type: "example.com/x", Data: map[string][]byte{"a": {0, 255}}}: &corev1.SecretList{},
		&corev1.ConfigMap{Data: map[string]string{"a": "b"}}:                          &corev1.ConfigMapList{},
		&corev1.ServiceAccount{AutomountServiceAccountToken: ptr.To(false)}:           &corev1.ServiceAccountList{},
		&corev1.Event{InvolvedObject: corev1.ObjectReference{Namespace: ns}}:          &corev1.EventList{},
		&corev1.Namespace{}: &corev1.NamespaceList{},
		&eventsv1.Event{
			EventTime: metav1.NowMicro(), ReportingController: "judge.example.com/x", ReportingInstance: "i", Action: "Judge", Reason: "Because",
			Type: "Normal", Regarding: corev1.ObjectReference{Namespace: ns},
		}: &eventsv1.EventList{},
		&rbacv1.Role{Rules: rules}:                                                                     &rbacv1.RoleList{},
		&rbacv1.ClusterRole{Rules: rules}:                                                              &rbacv1.ClusterRoleList{},
		&rbacv1.RoleBinding{RoleRef: roleRef("Role")}:                                                  &rbacv1.RoleBindingList{},
		&rbacv1.ClusterRoleBinding{RoleRef: roleRef("ClusterRole")}:                                    &rbacv1.ClusterRoleBindingList{},
		&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To(int32(15))}}: &coordinationv1.LeaseList{},
	}
}

func roleRef(kind string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "judge"}
}

// typedKinds takes each kind through its life, by the client of controllers, which speaks protobuf.
func typedKinds(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(_ *kubernetes.Clientset, ns string) error {
		c, err := client.New(g.config, client.Options{Scheme: clientscheme.Scheme})
		if err != nil {
			return err
		}
		plain := rest.CopyConfig(g.config)
		plain.ContentType = "application/json"
		inJSON, err := client.New(plain, client.Options{Scheme: clientscheme.Scheme})
		if err != nil {
			return err
		}
		var m must
		for object, list := range kinds(ns) {
			object.SetName(g.name("typed"))
			if namespaced, err := c.IsObjectNamespaced(object); err != nil {
				return err
			} else if namespaced {
				object.SetNamespace(ns)
			}
			if err := life(ctx, c, object, list); err != nil {
				m.be(false, "%T: %v", object, err)
			}
			if err := alike(ctx, c, inJSON, object, list); err != nil {
				m.be(false, "%T in protobuf and in JSON: %v", object, err)
			}
		}
		return m.err()
	})
}

// alike holds that an object and the lists that it is in are the same, whatever they are written in.
func alike(ctx context.Context, packed, inJSON client.Client, object client.Object, list client.ObjectList) error {
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetFinalizers(nil)
	object.SetDeletionTimestamp(nil)
	object.SetManagedFields(nil)
	object.SetAnnotations(map[string]string{"judge.example.com/text": "\"ä\n\u2028"})
	if err := packed.Create(ctx, object); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer func() { _ = client.IgnoreNotFound(packed.Delete(context.Background(), object)) }()
	var objects []client.Object
	var lists []client.ObjectList
	for _, c := range []client.Client{packed, inJSON} {
		found := object.DeepCopyObject().(client.Object)
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), found); err != nil {
			return fmt.Errorf("get: %w", err)
		}
		objects = append(objects, found)
		listed := list.DeepCopyObject().(client.ObjectList)
		if err := c.List(ctx, listed, client.InNamespace(object.GetNamespace()), client.MatchingLabels(object.GetLabels())); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if listed.GetResourceVersion() == "" {
			return fmt.Errorf("a list without a revision: %#v", listed)
		}
		// Of the whole cluster, where controllers write between the two.
		listed.SetResourceVersion("")
		lists = append(lists, listed)
	}
	if len(objects[0].GetManagedFields()) == 0 || !equality.Semantic.DeepEqual(objects[0], objects[1]) {
		return fmt.Errorf("%#v is not %#v", objects[0], objects[1])
	}
	if meta.LenList(lists[0]) != 1 || !equality.Semantic.DeepEqual(lists[0], lists[1]) {
		return fmt.Errorf("the list %#v is not %#v", lists[0], lists[1])
	}
	return nil
}

func life(ctx context.Context, c client.Client, object client.Object, list client.ObjectList) error {
	object.SetLabels(map[string]string{"judge": object.GetName()})
	if err := c.Create(ctx, object); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer func() { _ = client.IgnoreNotFound(c.Delete(context.Background(), object)) }()
	fresh := func() (client.Object, error) {
		found := object.DeepCopyObject().(client.Object)
		return found, c.Get(ctx, client.ObjectKeyFromObject(object), found)
	}
	found, err := fresh()
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if found.GetUID() != object.GetUID() || found.GetResourceVersion() != object.GetResourceVersion() {
		return fmt.Errorf("the answer to its create was version %s, now it is %s", object.GetResourceVersion(), found.GetResourceVersion())
	}
	if err := c.List(ctx, list, client.InNamespace(object.GetNamespace()), client.MatchingLabels(object.GetLabels())); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if listed := meta.LenList(list); listed != 1 {
		return fmt.Errorf("%d in its list", listed)
	}
	stale := found.DeepCopyObject().(client.Object)
	base := found.DeepCopyObject().(client.Object)
	found.SetAnnotations(map[string]string{"judge.example.com/patched": "yes"})
	if err := c.Patch(ctx, found, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("merge patch: %w", err)
	}
	if err := c.Patch(ctx, stale, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"resourceVersion":"`+stale.GetResourceVersion()+`","labels":{"x":"y"}}}`))); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale patch: %w", err)
	}
	base = found.DeepCopyObject().(client.Object)
	controllerutil.AddFinalizer(found, "judge.example.com/hold")
	if err := c.Patch(ctx, found, client.StrategicMergeFrom(base)); err != nil {
		return fmt.Errorf("strategic merge patch: %w", err)
	}
	found.GetLabels()["updated"] = "yes"
	if err := c.Update(ctx, found); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	if err := c.Delete(ctx, found, client.Preconditions{UID: ptr.To(found.GetUID()), ResourceVersion: ptr.To(found.GetResourceVersion())}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	going, err := fresh()
	if err != nil || going.GetDeletionTimestamp().IsZero() || going.GetAnnotations()["judge.example.com/patched"] != "yes" || going.GetLabels()["updated"] != "yes" {
		return fmt.Errorf("after its delete: %v %w", going, err)
	}
	if err := c.Delete(ctx, going); err != nil {
		return fmt.Errorf("a second delete: %w", err)
	}
	if going, err = fresh(); err != nil {
		return fmt.Errorf("after the second delete: %w", err)
	}
	controllerutil.RemoveFinalizer(going, "judge.example.com/hold")
	if err := c.Update(ctx, going); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return eventually(ctx, "it to be gone", func() (bool, error) {
		_, err := fresh()
		return apierrors.IsNotFound(err), err
	})
}

// createOrPatch is how controllers write what they own.
func createOrPatch(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(_ *kubernetes.Clientset, ns string) error {
		c, err := client.New(g.config, client.Options{Scheme: clientscheme.Scheme})
		if err != nil {
			return err
		}
		for i, want := range []controllerutil.OperationResult{
			controllerutil.OperationResultCreated, controllerutil.OperationResultNone, controllerutil.OperationResultUpdated, controllerutil.OperationResultNone,
		} {
			for what, write := range map[string]func(context.Context, client.Client, client.Object, controllerutil.MutateFn) (controllerutil.OperationResult, error){
				"update": controllerutil.CreateOrUpdate, "patch": controllerutil.CreateOrPatch,
			} {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: what, Namespace: ns}}
				got, err := write(ctx, c, cm, func() error {
					cm.Data = map[string]string{"step": fmt.Sprint(i / 2)}
					return nil
				})
				if err != nil || got != want {
					return fmt.Errorf("create or %s, step %d: %s, not %s: %w", what, i, got, want, err)
				}
			}
		}
		return nil
	})
}
