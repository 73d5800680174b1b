package main

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

var clusterCases = []named{
	{"protobuf-creates", protobufCreates},
	{"errors", errorsAreKnown},
	{"locks-and-preconditions", locks},
	{"finalizers", finalizers},
	{"patches", patches},
	{"generate-name", generateName},
	{"dry-run", dryRun},
	{"selectors-and-pages", selectorsAndPages},
	{"delete-collection", deleteCollection},
	{"namespaces", namespaces},
	{"reviews", reviews},
	{"events", events},
	{"discovery", discoveryAndMapper},
	{"server-side-apply", serverSideApply},
	{"watch", watches},
	{"informers", informers},
	{"metadata-informer", metadataInformer},
	{"typed-kinds", typedKinds},
	{"create-or-patch", createOrPatch},
	{"initial-events", initialEvents},
	{"revisions", revisions},
	{"pages", pages},
	{"cut-informer", cutInformer},
	{"discoveries", discoveries},
	{"custom-resources", customResources},
	{"raw-requests", rawRequests},
	{"raw-custom-requests", rawCustomRequests},
	{"manager", manager},
	{"leader-election", leaderElection},
}

func protobuf(config *rest.Config) *kubernetes.Clientset {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfigOrDie(config)
}

// inNamespace runs with a namespace of its own, made by a protobuf body.
func inNamespace(ctx context.Context, g *ground, run func(*kubernetes.Clientset, string) error) error {
	client := protobuf(g.config)
	name := g.name("judge")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	if made.Labels["kubernetes.io/metadata.name"] != name || made.Status.Phase != corev1.NamespaceActive {
		return fmt.Errorf("a new namespace has labels %v and phase %q", made.Labels, made.Status.Phase)
	}
	defer func() { _ = client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}) }()
	return run(client, name)
}

func protobufCreates(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		var m must
		meta := metav1.ObjectMeta{Name: "a", Labels: map[string]string{"l": "v"}, Annotations: map[string]string{"x/y": "z"}}
		secret, err := client.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{
			ObjectMeta: meta, Data: map[string][]byte{"k": {0, 1, 255}}, StringData: map[string]string{"s": "t"},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("secret: %w", err)
		}
		m.be(secret.Type == corev1.SecretTypeOpaque, "the type of a secret is %q", secret.Type)
		m.be(string(secret.Data["s"]) == "t" && len(secret.Data["k"]) == 3, "the data of a secret is %v", secret.Data)
		m.be(secret.UID != "" && secret.ResourceVersion != "" && !secret.CreationTimestamp.IsZero(), "metadata is not filled in: %v", secret.ObjectMeta)
		m.be(secret.Generation == 0, "a secret has generation %d", secret.Generation)

		cm, err := client.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: meta, Data: map[string]string{"k": "ü"}, BinaryData: map[string][]byte{"b": {7}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("config map: %w", err)
		}
		m.be(cm.Data["k"] == "ü" && cm.BinaryData["b"][0] == 7 && cm.Annotations["x/y"] == "z", "a config map came back as %v", cm)

		if _, err := client.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{
			ObjectMeta: meta, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "p"}},
		}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("service account: %w", err)
		}
		rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a"}}}
		role, err := client.RbacV1().Roles(ns).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("role: %w", err)
		}
		m.be(len(role.Rules) == 1 && role.Rules[0].ResourceNames[0] == "a", "a role came back as %v", role.Rules)
		binding, err := client.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "a"},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "u"}, {Kind: "ServiceAccount", Name: "a", Namespace: ns}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("role binding: %w", err)
		}
		m.be(binding.RoleRef.APIGroup == rbacv1.GroupName && binding.Subjects[0].APIGroup == rbacv1.GroupName, "groups of a binding are not defaulted: %v", binding)
		wide := metav1.ObjectMeta{Name: g.name("judge:wide")}
		if _, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: wide, Rules: rules}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cluster role: %w", err)
		}
		defer func() { _ = client.RbacV1().ClusterRoles().Delete(ctx, wide.Name, metav1.DeleteOptions{}) }()
		if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: wide, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: wide.Name, APIGroup: rbacv1.GroupName},
		}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cluster role binding: %w", err)
		}
		defer func() { _ = client.RbacV1().ClusterRoleBindings().Delete(ctx, wide.Name, metav1.DeleteOptions{}) }()
		holder := "me"
		now := metav1.NowMicro()
		lease, err := client.CoordinationV1().Leases(ns).Create(ctx, &coordinationv1.Lease{
			ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("lease: %w", err)
		}
		m.be(*lease.Spec.HolderIdentity == "me" && lease.Spec.RenewTime.Equal(&metav1.MicroTime{Time: now.Truncate(1000)}), "a lease came back as %v", lease.Spec)
		lease.Labels = map[string]string{"new": "label"}
		if _, err := client.CoordinationV1().Leases(ns).Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("updating a lease: %w", err)
		}
		return m.err()
	})
}

func errorsAreKnown(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		var m must
		maps := client.CoreV1().ConfigMaps(ns)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		_, err := maps.Get(ctx, "a", metav1.GetOptions{})
		m.be(apierrors.IsNotFound(err), "getting what is missing: %v", err)
		if _, err := maps.Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
		m.be(apierrors.IsAlreadyExists(err), "creating it twice: %v", err)
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "No_Name"}}, metav1.CreateOptions{})
		m.be(apierrors.IsInvalid(err), "a bad name: %v", err)
		var status apierrors.APIStatus = apierrors.FromObject(&metav1.Status{}).(apierrors.APIStatus)
		if s, ok := err.(apierrors.APIStatus); ok {
			status = s
		}
		details := status.Status().Details
		m.be(details != nil && details.Kind == "ConfigMap" && len(details.Causes) == 1 && details.Causes[0].Field == "metadata.name", "details of a bad name: %v", details)
		_, err = client.CoreV1().ConfigMaps("nowhere-"+g.suffix).Create(ctx, cm, metav1.CreateOptions{})
		m.be(apierrors.IsNotFound(err), "creating in no namespace: %v", err)
		_, err = maps.List(ctx, metav1.ListOptions{LabelSelector: "a in b"})
		m.be(apierrors.IsBadRequest(err), "a bad selector: %v", err)
		_, err = maps.List(ctx, metav1.ListOptions{FieldSelector: "data.x=y"})
		m.be(apierrors.IsBadRequest(err), "an unknown field: %v", err)
		err = client.CoreV1().RESTClient().Get().AbsPath("/apis/none.example.com/v1/things").Do(ctx).Error()
		m.be(apierrors.IsNotFound(err), "an unknown group: %v", err)
		err = client.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/" + ns + "/configmaps/a").Body([]byte("{}")).Do(ctx).Error()
		m.be(apierrors.IsMethodNotSupported(err), "posting to an object: %v", err)
		anonymous := rest.AnonymousClientConfig(g.config)
		anonymous.BearerToken = "wrong"
		_, err = kubernetes.NewForConfigOrDie(anonymous).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		m.be(apierrors.IsUnauthorized(err), "a wrong token: %v", err)
		return m.err()
	})
}

func locks(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		var m must
		maps := client.CoreV1().ConfigMaps(ns)
		first, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		next := first.DeepCopy()
		next.Data = map[string]string{"x": "1"}
		second, err := maps.Update(ctx, next, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		m.be(second.ResourceVersion != first.ResourceVersion, "an update has no new version")
		_, err = maps.Update(ctx, next, metav1.UpdateOptions{})
		m.be(apierrors.IsConflict(err), "a stale update: %v", err)
		same, err := maps.Update(ctx, second.DeepCopy(), metav1.UpdateOptions{})
		m.be(err == nil && same.ResourceVersion == second.ResourceVersion, "an update without a change: %v %v", same, err)
		other := types.UID("other")
		err = maps.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
		m.be(apierrors.IsConflict(err), "deleting another uid: %v", err)
		err = maps.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &first.ResourceVersion}})
		m.be(apierrors.IsConflict(err), "deleting an old version: %v", err)
		err = maps.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &first.UID}})
		m.be(err == nil, "deleting what was meant: %v", err)
		return m.err()
	})
}

func finalizers(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		var m must
		maps := client.CoreV1().ConfigMaps(ns)
		made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"judge.example.com/x"}}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if err := maps.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			return err
		}
		going, err := maps.Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		m.be(going.DeletionTimestamp != nil, "no deletion timestamp")
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		m.be(apierrors.IsAlreadyExists(err), "creating while it goes: %v", err)
		more := going.DeepCopy()
		more.Finalizers = append(more.Finalizers, "judge.example.com/y")
		_, err = maps.Update(ctx, more, metav1.UpdateOptions{})
		m.be(apierrors.IsInvalid(err), "a finalizer more: %v", err)
		going.Finalizers = nil
		last, err := maps.Update(ctx, going, metav1.UpdateOptions{})
		m.be(err == nil && last.UID == made.UID, "the last finalizer: %v", err)
		_, err = maps.Get(ctx, "a", metav1.GetOptions{})
		m.be(apierrors.IsNotFound(err), "after the last finalizer: %v", err)
		return m.err()
	})
}

func patches(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		var m must
		maps := client.CoreV1().ConfigMaps(ns)
		made, err := maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"judge.example.com/x"}}, Data: map[string]string{"a": "1", "b": "2"},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		apply := func(kind types.PatchType, patch string) (*corev1.ConfigMap, error) {
			return maps.Patch(ctx, "a", kind, []byte(patch), metav1.PatchOptions{})
		}
		got, err := apply(types.MergePatchType, `{"data":{"a":null,"c":"3"}}`)
		m.be(err == nil && len(got.Data) == 2 && got.Data["c"] == "3", "a merge patch: %v %v", got, err)
		got, err = apply(types.JSONPatchType, `[{"op":"test","path":"/data/c","value":"3"},{"op":"replace","path":"/data/c","value":"4"},{"op":"add","path":"/data/d","value":"5"},{"op":"remove","path":"/data/b"}]`)
		m.be(err == nil && len(got.Data) == 2 && got.Data["c"] == "4", "a JSON patch: %v %v", got, err)
		_, err = apply(types.JSONPatchType, `[{"op":"test","path":"/data/c","value":"no"}]`)
		m.be(apierrors.IsInvalid(err), "a failing test: %v", err)
		got, err = apply(types.StrategicMergePatchType, `{"metadata":{"finalizers":["judge.example.com/y"],"$setElementOrder/finalizers":["judge.example.com/y","judge.example.com/x"]},"data":{"$patch":"replace","z":"9"}}`)
		m.be(err == nil && len(got.Finalizers) == 2 && len(got.Data) == 1, "a strategic merge patch: %v %v", got, err)
		_, err = apply(types.MergePatchType, `{"metadata":{"resourceVersion":"`+made.ResourceVersion+`"},"data":{"q":"r"}}`)
		m.be(apierrors.IsConflict(err), "a patch of an old version: %v", err)
		_, err = apply(types.MergePatchType, `{"metadata":{"uid":"other"}}`)
		m.be(apierrors.IsInvalid(err), "a patch of another uid: %v", err)
		_, err = apply(types.MergePatchType, `[`)
		m.be(apierrors.IsBadRequest(err), "a broken patch: %v", err)
		before, _ := maps.Get(ctx, "a", metav1.GetOptions{})
		got, err = apply(types.MergePatchType, `{"data":{"z":"9"}}`)
		m.be(err == nil && got.ResourceVersion == before.ResourceVersion, "a patch without a change: %v", err)
		_, err = apply(types.MergePatchType, `{"metadata":{"finalizers":null}}`)
		m.be(err == nil, "removing finalizers: %v", err)
		_, err = maps.Patch(ctx, "missing", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		m.be(apierrors.IsNotFound(err), "patching what is missing: %v", err)
		return m.err()
	})
}

func generateName(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		seen := map[string]bool{}
		for range 20 {
			made, err := client.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "gen-"}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if len(made.Name) != len("gen-")+5 || seen[made.Name] {
				return fmt.Errorf("generated name %q", made.Name)
			}
			seen[made.Name] = true
		}
		return nil
	})
}

func dryRun(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		maps := client.CoreV1().ConfigMaps(ns)
		all := []string{metav1.DryRunAll}
		made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{DryRun: all})
		if err != nil || made.UID == "" {
			return fmt.Errorf("a dry create: %v %v", made, err)
		}
		if _, err := maps.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("after a dry create: %v", err)
		}
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := maps.Delete(ctx, "a", metav1.DeleteOptions{DryRun: all}); err != nil {
			return err
		}
		_, err = maps.Get(ctx, "a", metav1.GetOptions{})
		return err
	})
}

func selectorsAndPages(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		var m must
		// Not config maps: controllers put one of theirs into every namespace.
		secrets := client.CoreV1().Secrets(ns)
		for i := range 25 {
			labels := map[string]string{"third": fmt.Sprint(i % 3)}
			if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%02d", i), Labels: labels}}, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		count := func(options metav1.ListOptions) int {
			list, err := secrets.List(ctx, options)
			m.be(err == nil, "%v: %v", options, err)
			return len(list.Items)
		}
		for selector, want := range map[string]int{"third=1": 8, "third!=1": 17, "third in (0,2)": 17, "third notin (0)": 16, "!third": 0, "third": 25, "third=1,third=2": 0} {
			m.be(count(metav1.ListOptions{LabelSelector: selector}) == want, "selector %s", selector)
		}
		m.be(count(metav1.ListOptions{FieldSelector: "metadata.name=p07"}) == 1, "one by name")
		m.be(count(metav1.ListOptions{FieldSelector: "metadata.name!=p07,metadata.namespace=" + ns}) == 24, "all but one by name")
		seen, version, next := 0, "", ""
		for {
			page, err := secrets.List(ctx, metav1.ListOptions{Limit: 10, Continue: next})
			if err != nil {
				return err
			}
			if version == "" {
				version = page.ResourceVersion
				m.be(page.RemainingItemCount != nil && *page.RemainingItemCount == 15, "remaining: %v", page.RemainingItemCount)
				if err := secrets.Delete(ctx, "p20", metav1.DeleteOptions{}); err != nil {
					return err
				}
			}
			m.be(page.ResourceVersion == version, "a page of %s, not %s", page.ResourceVersion, version)
			seen += len(page.Items)
			if next = page.Continue; next == "" {
				break
			}
		}
		m.be(seen == 25, "%d objects on all pages", seen)
		return m.err()
	})
}

func deleteCollection(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		maps := client.CoreV1().ConfigMaps(ns)
		for i := range 6 {
			labels := map[string]string{"odd": fmt.Sprint(i%2 == 1)}
			if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i), Labels: labels}}, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd=true"}); err != nil {
			return err
		}
		left, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "odd"})
		if err != nil || len(left.Items) != 3 {
			return fmt.Errorf("%d left: %v", len(left.Items), err)
		}
		return nil
	})
}

func namespaces(ctx context.Context, g *ground) error {
	var m must
	client := protobuf(g.config)
	name := g.name("going")
	spaces := client.CoreV1().Namespaces()
	if _, err := spaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(name)
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"judge.example.com/x"}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := spaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	m.be(apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), "creating in what goes: %v", err)
	if err := eventually(ctx, "the content to be marked", func() (bool, error) {
		held, err := maps.Get(ctx, "held", metav1.GetOptions{})
		return err == nil && held.DeletionTimestamp != nil, err
	}); err != nil {
		return err
	}
	if _, err := maps.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "the namespace to go", func() (bool, error) {
		_, err := spaces.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	}); err != nil {
		return err
	}
	err = spaces.Delete(ctx, "kube-system", metav1.DeleteOptions{})
	m.be(apierrors.IsForbidden(err), "deleting kube-system: %v", err)
	return m.err()
}

func reviews(ctx context.Context, g *ground) error {
	var m must
	client := protobufless(g.config)
	access, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets"}},
	}, metav1.CreateOptions{})
	m.be(err == nil && access.Status.Allowed, "may the administrator get secrets: %v %v", access, err)
	self, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	m.be(err == nil && self.Status.UserInfo.Username != "", "who am I: %v %v", self, err)
	token, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "wrong"}}, metav1.CreateOptions{})
	m.be(err == nil && !token.Status.Authenticated, "a wrong token: %v %v", token, err)
	return m.err()
}

func protobufless(config *rest.Config) *kubernetes.Clientset {
	config = rest.CopyConfig(config)
	config.ContentType = "application/json"
	return kubernetes.NewForConfigOrDie(config)
}

func events(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		var m must
		core, err := client.CoreV1().Events(ns).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Namespace: ns, Name: "a"},
			Reason: "Because", Message: "hello", Type: "Normal", Count: 1, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
			Source: corev1.EventSource{Component: "judge"},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		view, err := client.EventsV1().Events(ns).Get(ctx, "e", metav1.GetOptions{})
		m.be(err == nil && view.Note == "hello" && view.Regarding.Name == "a" && view.UID == core.UID, "the other view: %v %v", view, err)
		if _, err := client.EventsV1().Events(ns).Create(ctx, &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "f"}, Regarding: corev1.ObjectReference{Kind: "ConfigMap", Namespace: ns, Name: "b"},
			EventTime: metav1.NowMicro(), ReportingController: "judge.example.com/x", ReportingInstance: "i", Action: "Judge", Reason: "Because", Type: "Warning", Note: "new",
		}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("an event of the new group: %w", err)
		}
		back, err := client.CoreV1().Events(ns).Get(ctx, "f", metav1.GetOptions{})
		m.be(err == nil && back.Message == "new" && back.InvolvedObject.Name == "b", "seen from core: %v %v", back, err)
		chosen, err := client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=a"})
		m.be(err == nil && len(chosen.Items) == 1, "chosen by its subject: %v", err)
		patched, err := client.CoreV1().Events(ns).Patch(ctx, "e", types.StrategicMergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
		m.be(err == nil && patched.Count == 2, "counted: %v", err)
		return m.err()
	})
}

func discoveryAndMapper(ctx context.Context, g *ground) error {
	var m must
	client := protobuf(g.config).Discovery()
	version, err := client.ServerVersion()
	m.be(err == nil && version.Major == "1", "version: %v %v", version, err)
	groups, lists, err := client.ServerGroupsAndResources()
	m.be(err == nil && len(groups) > 5 && len(lists) > 5, "%d groups, %d lists: %v", len(groups), len(lists), err)
	preferred, err := client.ServerPreferredResources()
	m.be(err == nil && len(preferred) > 5, "preferred: %v", err)
	resources, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(resources)
	mapping, err := mapper.RESTMapping(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind())
	m.be(err == nil && mapping.Resource.Resource == "secrets" && mapping.Scope.Name() == "namespace", "secrets: %v %v", mapping, err)
	mapping, err = mapper.RESTMapping(rbacv1.SchemeGroupVersion.WithKind("ClusterRole").GroupKind())
	m.be(err == nil && mapping.Scope.Name() == "root", "cluster roles: %v %v", mapping, err)
	ready, err := client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	m.be(err == nil && string(ready) == "ok", "readyz: %s %v", ready, err)
	return m.err()
}

// serverSideApply works, or is refused in so many words.
func serverSideApply(ctx context.Context, g *ground) error {
	return inNamespace(ctx, g, func(client *kubernetes.Clientset, ns string) error {
		_, err := client.CoreV1().ConfigMaps(ns).Patch(ctx, "a", types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"y"}}`), metav1.PatchOptions{FieldManager: "judge"})
		if err == nil || apierrors.IsUnsupportedMediaType(err) {
			return nil
		}
		return err
	})
}
