{{/* Labels of every object. */}}
{{- define "federation.labels" -}}
{{- $version := regexReplaceAllLiteral "[^-_.A-Za-z0-9]" (.Values.controllermanager.controller.tag | default .Chart.AppVersion | toString) "_" | trunc 63 | trimAll "-_." -}}
app.kubernetes.io/name: kubefed
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ $version | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "federation.scope" -}}
{{- $scope := .Values.global.scope | default "Cluster" -}}
{{- if not (has $scope (list "Cluster" "Namespaced")) -}}
{{- fail (printf "global.scope: %q has to be Cluster or Namespaced" $scope) -}}
{{- end -}}
{{- $scope -}}
{{- end -}}

{{/* A map without its empty values, as YAML; nothing if none is left. */}}
{{- define "federation.given" -}}
{{- $given := dict -}}
{{- range $name, $value := . -}}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) -}}
{{- $_ := set $given $name $value -}}
{{- end -}}
{{- end -}}
{{- if $given -}}
{{- toYaml $given -}}
{{- end -}}
{{- end -}}

{{- define "federation.image" -}}
{{- $values := .Values.controllermanager.controller -}}
{{- $image := $values.image -}}
{{- with $values.repository -}}
{{- $image = printf "%s/%s" . $image -}}
{{- end -}}
{{- printf "%s:%s" $image ($values.tag | default .Chart.AppVersion | toString) -}}
{{- end -}}

{{/* What the control plane may do with objects that it propagates. */}}
{{- define "federation.objectRules" -}}
- apiGroups: {{ concat (list "types.kubefed.io") (.Values.federatedGroups | default list) | toJson }}
  resources: ["*"]
  verbs: [get, list, watch, update, patch]
- apiGroups: [core.kubefed.io]
  resources: [propagatedversions, propagatedversions/status, federatedservicestatuses]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [scheduling.kubefed.io]
  resources: [replicaschedulingpreferences]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch, update]
{{- end -}}
