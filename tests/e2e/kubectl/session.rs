//! What is entered, line by line.

pub(super) const MANIFESTS: &[(&str, &str)] = &[
    (
        "workspace.yaml",
        "apiVersion: tenancy.kcp.io/v1alpha1\nkind: Workspace\nmetadata: {name: fleet}\n",
    ),
    (
        "crd.yaml",
        r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.fleet.example.org}
spec:
  group: fleet.example.org
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, listKind: BoatList, shortNames: [bt], categories: [fleet]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    selectableFields: [{jsonPath: .spec.color}]
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: A boat swims.
        properties:
          spec:
            type: object
            description: What is wanted.
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: How long it is.}
              color: {type: string, default: white, enum: [white, red, blue]}
              crew:
                type: array
                items: {type: object, properties: {name: {type: string}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#,
    ),
    (
        "provider.yaml",
        r"apiVersion: apis.kcp.io/v1alpha1
kind: APIResourceSchema
metadata: {name: v1.buoys.harbor.example.org}
spec:
  group: harbor.example.org
  scope: Namespaced
  names: {plural: buoys, singular: buoy, kind: Buoy, listKind: BuoyList, shortNames: [bu]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    schema:
      type: object
      properties:
        spec: {type: object, properties: {color: {type: string, default: red, enum: [red, green], description: Which it is.}}}
        status: {type: object, properties: {lit: {type: boolean}}}
---
apiVersion: apis.kcp.io/v1alpha2
kind: APIExport
metadata: {name: harbor.example.org}
spec:
  resources: [{group: harbor.example.org, name: buoys, schema: v1.buoys.harbor.example.org, storage: {crd: {}}}]
",
    ),
    (
        "binding.yaml",
        "apiVersion: apis.kcp.io/v1alpha2\nkind: APIBinding\nmetadata: {name: harbor}\nspec: {reference: {export: {path: root, name: harbor.example.org}}}\n",
    ),
    (
        "buoy.yaml",
        "apiVersion: harbor.example.org/v1\nkind: Buoy\nmetadata: {name: north, namespace: default}\nspec: {}\n",
    ),
    (
        "one.yaml",
        "apiVersion: fleet.example.org/v1\nkind: Boat\nmetadata: {name: one, namespace: shop, labels: {pier: a}}\nspec: {size: 3, crew: [{name: ann}]}\n",
    ),
    (
        "one-larger.yaml",
        "apiVersion: fleet.example.org/v1\nkind: Boat\nmetadata: {name: one, namespace: shop, labels: {pier: b}}\nspec: {size: 4}\n",
    ),
    (
        "two.yaml",
        "apiVersion: fleet.example.org/v1\nkind: Boat\nmetadata: {name: two, namespace: shop}\nspec: {size: 7, color: red}\n",
    ),
    (
        "unknown.yaml",
        "apiVersion: fleet.example.org/v1\nkind: Boat\nmetadata: {name: bad, namespace: shop}\nspec: {size: 7, sail: large}\n",
    ),
    (
        "invalid.yaml",
        "apiVersion: fleet.example.org/v1\nkind: Boat\nmetadata: {name: bad, namespace: shop}\nspec: {size: 5, color: green}\n",
    ),
    (
        "mistyped.yaml",
        "apiVersion: fleet.example.org/v1\nkind: Boat\nmetadata: {name: bad, namespace: shop}\nspec: {size: large}\n",
    ),
    (
        "maps.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plan, namespace: shop, labels: {pier: a}}\ndata: {a: b, c: d}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: chart, namespace: shop}\ndata: {x: z}\n",
    ),
    (
        "maps-changed.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plan, namespace: shop, labels: {pier: a}}\ndata: {a: changed}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: chart, namespace: shop}\ndata: {x: z}\n",
    ),
    (
        "list.yaml",
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: first, namespace: shop}, data: {a: b}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: second, namespace: shop}, data: {a: b}}\n",
    ),
    (
        "map-unknown.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd, namespace: shop}\ndata: {a: b}\nsail: large\n",
    ),
    (
        "served.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: served, namespace: shop}\ndata: {a: b}\n",
    ),
    (
        "served-more.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: served, namespace: shop}\ndata: {a: b, more: of}\n",
    ),
    (
        "three.yaml",
        "apiVersion: fleet.example.org/v1\nkind: Boat\nmetadata: {name: three, namespace: shop}\nspec: {size: 9, crew: [{name: bob}]}\n",
    ),
    (
        "event.yaml",
        "apiVersion: v1\nkind: Event\nmetadata: {name: sunk, namespace: shop}\ninvolvedObject: {apiVersion: v1, kind: ConfigMap, name: plan, namespace: shop}\nreason: Sunk\nmessage: it is gone\ntype: Warning\ncount: 2\nfirstTimestamp: 2026-01-01T00:00:00Z\nlastTimestamp: 2026-01-01T00:00:00Z\nsource: {component: harbour}\n",
    ),
];

/// The lines of all places.
pub(super) fn lines() -> impl Iterator<Item = &'static str> {
    SESSION
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

const SESSION: &str = r#"
kubectl create namespace shop
kubectl get namespace shop
kubectl get ns shop --show-labels
kubectl get ns shop -o jsonpath='{.status.phase}'
kubectl get --raw /readyz

# Maps and secrets.
kubectl get configmaps -n shop -l pier
kubectl create configmap settings -n shop --from-literal=a=b --from-literal=c=d
kubectl create configmap settings -n shop --from-literal=a=b
kubectl get cm settings -n shop
kubectl get cm settings -n shop -o wide
kubectl get cm settings -n shop -o name
kubectl get cm settings -n shop -o jsonpath='{.data.a}'
kubectl get cm settings -n shop -o go-template='{{.data.c}}'
kubectl get cm settings -n shop -o custom-columns=N:.metadata.name,A:.data.a
kubectl get cm settings none -n shop
kubectl label cm settings -n shop pier=a
kubectl label cm settings -n shop pier=b
kubectl label cm settings -n shop pier=b --overwrite
kubectl get cm -n shop --show-labels -l pier=b
kubectl get cm -n shop -L pier -l pier
kubectl get cm -A -l pier=b
kubectl get cm -n shop -l pier=none
kubectl get cm -n shop --field-selector metadata.name=settings
kubectl get cm -n shop --field-selector data.a=b
kubectl get cm -n shop -l 'pier in (b'
kubectl label cm settings -n shop pier-
kubectl annotate cm settings -n shop note=x
kubectl annotate cm settings -n shop note=y --overwrite
kubectl get cm settings -n shop -o yaml
kubectl patch cm settings -n shop --type merge -p '{"data":{"a":"merged"}}'
kubectl patch cm settings -n shop --type json -p '[{"op":"replace","path":"/data/c","value":"json"}]'
kubectl patch cm settings -n shop --type json -p '[{"op":"test","path":"/data/c","value":"other"}]'
kubectl patch cm settings -n shop -p '{"data":{"e":"strategic"}}'
kubectl patch cm settings -n shop -p '{"data":{"e":"strategic"}}'
kubectl get cm settings -n shop -o jsonpath='{.data}'
KUBE_EDITOR="sed -i s/strategic/edited/" kubectl edit cm settings -n shop
KUBE_EDITOR="true" kubectl edit cm settings -n shop
kubectl describe cm settings -n shop
kubectl create secret generic key -n shop --from-literal=k=v
kubectl get secret key -n shop
kubectl get secrets -n shop --field-selector type=Opaque
kubectl describe secret key -n shop
kubectl create configmap dry -n shop --from-literal=a=b --dry-run=server -o name
kubectl get cm dry -n shop

# Apply, diff and replace.
kubectl apply -f maps.yaml
kubectl apply -f maps.yaml
kubectl diff -f maps-changed.yaml | grep '^[-+] '
kubectl apply -f maps-changed.yaml
kubectl get cm plan chart -n shop -o yaml
kubectl apply -f map-unknown.yaml
kubectl apply -f map-unknown.yaml --validate=warn
kubectl apply -f map-unknown.yaml --validate=false
kubectl replace -f maps.yaml
kubectl get cm plan -n shop -o jsonpath='{.data}'
kubectl apply -f maps.yaml --dry-run=server
kubectl delete -f map-unknown.yaml
kubectl apply -f list.yaml
kubectl get -f list.yaml -o yaml
kubectl delete -f list.yaml

# Server-side apply.
kubectl apply --server-side -f served.yaml
kubectl apply --server-side -f served.yaml
kubectl patch cm served -n shop --type merge -p '{"data":{"a":"mine"}}'
kubectl apply --server-side -f served.yaml
kubectl apply --server-side --force-conflicts -f served.yaml
kubectl apply --server-side --field-manager=other -f served-more.yaml
kubectl get cm served -n shop -o jsonpath='{.data}'
kubectl apply --server-side --field-manager=other -f served.yaml
kubectl get cm served -n shop -o jsonpath='{.data}'
kubectl get cm served -n shop --show-managed-fields -o jsonpath='{range .metadata.managedFields[*]}{.manager} {.operation} {.fieldsV1}{"\n"}{end}'
kubectl apply --server-side -f maps.yaml
kubectl apply --server-side -f map-unknown.yaml
kubectl delete cm served -n shop --cascade=foreground

# Definitions and what they define.
kubectl get boats -n shop
kubectl apply -f crd.yaml
kubectl wait --for=condition=Established crd/boats.fleet.example.org
kubectl get crd boats.fleet.example.org -o jsonpath='{.status.acceptedNames.plural}'
kubectl api-resources --api-group=fleet.example.org
kubectl api-resources --api-group=fleet.example.org -o wide
kubectl api-resources --api-group=coordination.k8s.io
kubectl api-resources --api-group=rbac.authorization.k8s.io -o wide
kubectl api-resources --categories=fleet
kubectl api-versions | grep -x 'fleet.example.org/v1\|v1\|coordination.k8s.io/v1\|events.k8s.io/v1'
kubectl get boats -n shop
kubectl apply -f one.yaml
kubectl apply -f one.yaml
kubectl create -f two.yaml
kubectl create -f two.yaml
kubectl apply --server-side -f three.yaml
kubectl patch boat three -n shop --type merge -p '{"spec":{"size":10}}'
kubectl apply --server-side -f three.yaml
kubectl apply --server-side --force-conflicts -f three.yaml
kubectl get boat three -n shop --show-managed-fields -o jsonpath='{range .metadata.managedFields[*]}{.manager} {.operation} {.fieldsV1}{"\n"}{end}'
kubectl delete boat three -n shop --cascade=orphan
kubectl get boats -n shop
kubectl get bt -n shop -o wide
kubectl get boats.v1.fleet.example.org -n shop --show-labels
kubectl get fleet -n shop
kubectl get boats -n shop --field-selector spec.color=red
kubectl get boats -n shop --field-selector spec.size=3
kubectl get boats -n shop --sort-by=.spec.size
kubectl get boats,cm -n shop -l pier=a
kubectl get boat/one secret/key -n shop
kubectl get boats -n shop --chunk-size=1
kubectl get boat one -n shop -o yaml
kubectl apply -f unknown.yaml
kubectl apply -f unknown.yaml --validate=warn
kubectl delete -f unknown.yaml
kubectl apply -f invalid.yaml
kubectl apply -f mistyped.yaml
kubectl apply -f one-larger.yaml
kubectl get boat one -n shop -o jsonpath='{.spec}'
kubectl diff -f one.yaml | grep '^[-+] '
KUBE_EDITOR="sed -i 's/size: 4/size: 5/'" kubectl edit boat one -n shop
KUBE_EDITOR="sed -i 's/size: 5/size: 0/'" kubectl edit boat one -n shop 2>&1 | head -1
kubectl wait --for=jsonpath='{.spec.size}'=5 boat/one -n shop --timeout=5s
kubectl wait --for=condition=Ready boat/one -n shop --timeout=1s
kubectl patch boat one -n shop --subresource=status --type=merge -p '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
kubectl wait --for=condition=Ready boat/one -n shop --timeout=5s
kubectl get boat one -n shop
kubectl get boat one -n shop --subresource=status
kubectl patch boat one -n shop -p '{"spec":{"size":6}}' 2>&1 | cut -c1-90
kubectl describe boat one -n shop
timeout 2 kubectl get boats -n shop --watch
timeout 2 kubectl get boats -n shop --watch --output-watch-events
timeout 2 kubectl get boat one -n shop -w -o name
timeout 2 kubectl get cm plan -n shop -w
kubectl explain boat
kubectl explain boat.spec
kubectl explain boat.spec.size
kubectl explain boats --recursive
kubectl explain boat.spec.none
kubectl explain boat.spec --output=plaintext-openapiv2 --recursive
kubectl explain secret --output=plaintext-openapiv2
kubectl explain configmap
kubectl explain configmap.data
kubectl explain secret --recursive

# Roles, accounts, leases.
kubectl create role reader -n shop --verb=get --resource=configmaps
kubectl create rolebinding readers -n shop --role=reader --user=ann --group=devs --serviceaccount=shop:robot
kubectl create serviceaccount robot -n shop
kubectl get role,rolebinding -n shop
kubectl get rolebinding -n shop -o wide
kubectl get serviceaccount robot -n shop
kubectl describe role reader -n shop
kubectl create clusterrole fleet-reader --verb=get,list --resource=boats.fleet.example.org
kubectl get clusterrole fleet-reader -o jsonpath='{.rules}'
kubectl delete clusterrole fleet-reader
kubectl auth can-i create configmaps -n shop
kubectl auth can-i delete boats -n shop --all-namespaces

# Events.
kubectl apply -f event.yaml
kubectl get events -n shop
kubectl get events -n shop -o wide
kubectl get ev -n shop --field-selector reason=Sunk,type!=Normal
kubectl events -n shop
kubectl events -n shop --for configmap/plan --types=Warning
kubectl get events.v1.events.k8s.io -n shop

# Deletions.
kubectl delete cm settings -n shop
kubectl delete cm settings -n shop
kubectl delete cm settings -n shop --ignore-not-found
kubectl delete secret key -n shop --now
kubectl patch boat two -n shop --type=merge -p '{"metadata":{"finalizers":["example.org/hold"]}}'
kubectl delete boat two -n shop --wait=false
kubectl delete boat two -n shop --timeout=1s
kubectl get boat two -n shop
kubectl patch boat two -n shop --type=merge -p '{"metadata":{"finalizers":null}}'
kubectl wait --for=delete boat/two -n shop --timeout=10s
kubectl get boat two -n shop
kubectl delete boats --all -n shop
kubectl delete cm -n shop -l pier=a
kubectl delete crd boats.fleet.example.org
kubectl get boats -n shop
kubectl delete namespace shop --timeout=30s
kubectl get namespace shop
"#;

/// Lines for kcp, and what they have to say.
pub(super) const KCP: &[(&str, &str)] = &[
    (
        "kubectl create -f workspace.yaml",
        "^workspace.tenancy.kcp.io/fleet created\n",
    ),
    (
        "kubectl wait --for=jsonpath='{.status.phase}'=Ready ws/fleet --timeout=10s",
        "^workspace.tenancy.kcp.io/fleet condition met\n",
    ),
    (
        "kubectl get ws",
        "^NAME  TYPE  REGION  PHASE  URL  AGE\nfleet  organization  Ready  URL/clusters/root:fleet  AGE\n",
    ),
    (
        "kubectl get workspaces fleet -o jsonpath='{.status.phase} {.spec.URL}'",
        "^Ready URL/clusters/root:fleet",
    ),
    (
        "kubectl get workspacetypes",
        "^NAME  AGE\n(?s:.*)\nuniversal  AGE\n",
    ),
    (
        "kubectl get logicalclusters",
        "^NAME  PHASE  URL  AGE\ncluster  Ready  URL/clusters/root  AGE\n",
    ),
    (
        "kubectl get apiexports",
        "^NAME  AGE\n(?s:.*)tenancy.kcp.io  AGE\n",
    ),
    (
        "kubectl get apiexports.v1alpha1.apis.kcp.io -o wide",
        "^NAME  AGE  READY\n",
    ),
    (
        "kubectl get apiexportendpointslices",
        "^NAME  EXPORT  PARTITION  AGE\n",
    ),
    (
        "kubectl get apibindings -o wide",
        "^NAME  AGE  READY\n(?s:.*)tenancy.kcp.io-[a-z0-9]{5}  AGE  True\n",
    ),
    (
        "kubectl get shards",
        "^NAME  REGION  URL  EXTERNAL URL  AGE\n",
    ),
    (
        "kubectl explain workspace.spec.type",
        "(?s)^GROUP:.*KIND: +Workspace\n",
    ),
    (
        "kubectl api-resources --api-group=tenancy.kcp.io",
        "(?s)workspaces  ws  tenancy.kcp.io/v1alpha1  false  Workspace\n",
    ),
    (
        "kubectl auth whoami",
        "^ATTRIBUTE  VALUE\nUsername  kcp-admin\n",
    ),
    (
        "kubectl delete ws fleet --timeout=20s",
        "^workspace.tenancy.kcp.io \"fleet\" deleted",
    ),
];

/// An API that one workspace offers and another uses, entered in root; `fleet` uses it.
pub(super) const BOUND: &[(&str, &str)] = &[
    (
        "kubectl create -f workspace.yaml && kubectl wait --for=jsonpath='{.status.phase}'=Ready ws/fleet --timeout=20s && kubectl config view --raw -o json | sed \"s#/clusters/root\\\"#/clusters/root:fleet\\\"#\" > fleet.kubeconfig",
        "^workspace.tenancy.kcp.io/fleet created\n(?s:.*)condition met\n",
    ),
    (
        "kubectl create -f provider.yaml",
        "^apiresourceschema.apis.kcp.io/v1.buoys.harbor.example.org created\napiexport.apis.kcp.io/harbor.example.org created\n",
    ),
    (
        "kubectl wait --for=condition=IdentityValid apiexport/harbor.example.org --timeout=20s",
        "condition met\n",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig get buoys",
        "error: the server doesn't have a resource type \"buoys\"\n",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig apply -f binding.yaml",
        "^apibinding.apis.kcp.io/harbor created\n",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig wait --for=condition=Ready apibinding/harbor --timeout=20s",
        "^apibinding.apis.kcp.io/harbor condition met\n",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig api-resources --api-group=harbor.example.org",
        "buoys  bu  harbor.example.org/v1  true  Buoy\n",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig explain buoy.spec.color",
        "(?s)^GROUP: +harbor.example.org\nKIND: +Buoy\n.*Which it is",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig apply -f buoy.yaml",
        "^buoy.harbor.example.org/north created\n",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig get bu",
        "^NAME  COLOR\nnorth  red\n",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig patch buoy north --type=merge -p '{\"spec\":{\"color\":\"blue\"}}'",
        "(?s)^The Buoy \"north\" is invalid: spec.color: Unsupported value: \"blue\"",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig apply --server-side --force-conflicts -f buoy.yaml",
        "^buoy.harbor.example.org/north serverside-applied\n",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig patch buoy north --subresource=status --type=merge -p '{\"status\":{\"lit\":true}}'",
        "^buoy.harbor.example.org/north patched\n",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig get buoy north -o jsonpath='{.status.lit} {.metadata.generation}'",
        "^true 1",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig delete apibinding harbor --timeout=20s",
        "^apibinding.apis.kcp.io \"harbor\" deleted",
    ),
    (
        "kubectl --kubeconfig fleet.kubeconfig get buoys",
        "could not find the requested resource|the server doesn't have a resource type",
    ),
];
