{{/* The agent's public name. */}}
{{- define "hawser.agent" -}}
{{- $name := .Values.agentName | default .Release.Name | toString -}}
{{- if or (gt (len $name) 63) (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name)) -}}
{{- fail (printf "agentName: %q has to begin with a lower-case letter, and to consist of at most 63 lower-case letters, digits and dashes; set agentName" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "hawser.fullname" -}}
{{- .Values.fullnameOverride | default (include "hawser.agent" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "hawser.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/* Cluster-scoped objects are named after release and namespace: several namespaces may have a release of one name. */}}
{{- define "hawser.clusterName" -}}
hawser:{{ include "hawser.namespace" . }}:{{ include "hawser.fullname" . }}
{{- end -}}

{{- define "hawser.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "hawser.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The selector of a Deployment is immutable: these two labels are those of the original's chart. */}}
{{- define "hawser.selectorLabels" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "kcp-api-syncagent" | quote }}
app.kubernetes.io/instance: {{ include "hawser.agent" . | quote }}
{{- end -}}

{{/* Labels of the chart take precedence over extraLabels. */}}
{{- define "hawser.podLabels" -}}
{{ merge (include "hawser.selectorLabels" . | fromYaml) (.Values.extraLabels | default dict) | toYaml }}
{{- end -}}

{{- define "hawser.labels" -}}
{{- $version := regexReplaceAllLiteral "[^-_.A-Za-z0-9]" (.Values.image.tag | default .Chart.AppVersion | toString) "_" | trunc 63 | trimAll "-_." -}}
{{- $own := dict "app.kubernetes.io/version" $version "app.kubernetes.io/managed-by" .Release.Service "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{ merge $own (include "hawser.podLabels" . | fromYaml) | toYaml }}
{{- end -}}

{{/* Flags in extraFlags replace those of the chart. */}}
{{- define "hawser.hasExtraFlag" -}}
{{- range .flags -}}
{{- if or (eq . $.flag) (hasPrefix (printf "%s=" $.flag) .) -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hawser.probes" -}}
{{- if and .Values.probes.enabled (not (include "hawser.hasExtraFlag" (dict "flags" .Values.extraFlags "flag" "--health-address"))) -}}true{{- end -}}
{{- end -}}

{{- define "hawser.ownMetrics" -}}
{{- if and .Values.metrics.enabled (not (include "hawser.hasExtraFlag" (dict "flags" .Values.extraFlags "flag" "--metrics-address"))) -}}true{{- end -}}
{{- end -}}

{{/* The slice, or the export that it is named after. */}}
{{- define "hawser.endpointFlag" -}}
{{- if .Values.apiExportEndpointSliceName -}}
--apiexportendpointslice-ref={{ .Values.apiExportEndpointSliceName }}
{{- else if .Values.apiExportName -}}
--apiexport-ref={{ .Values.apiExportName }}
{{- else -}}
{{- fail "apiExportEndpointSliceName: set it to the name of the APIExportEndpointSlice in kcp" -}}
{{- end -}}
{{- end -}}

{{/* The arguments of the agent, as a list in YAML. */}}
{{- define "hawser.args" -}}
{{- $args := list "--namespace=$(POD_NAMESPACE)" -}}
{{- $args = append $args (printf "--enable-leader-election=%s" (toString .Values.enableLeaderElection)) -}}
{{- if gt (int .Values.shards) 1 -}}
{{- $args = append $args (printf "--shards=%d" (int .Values.shards)) -}}
{{- end -}}
{{- $args = append $args (include "hawser.endpointFlag" .) -}}
{{- $args = append $args "--agent-name=$(AGENT_NAME)" -}}
{{- $args = append $args "--kcp-kubeconfig=/etc/api-syncagent/kcp/kubeconfig" -}}
{{- if .Values.kubeconfig -}}
{{- $args = append $args "--kubeconfig=/etc/api-syncagent/cluster/kubeconfig" -}}
{{- end -}}
{{- with .Values.kubeconfigHostOverride -}}
{{- $args = append $args (printf "--kubeconfig-host-override=%s" .) -}}
{{- end -}}
{{- with .Values.kubeconfigCAFileOverride -}}
{{- $args = append $args (printf "--kubeconfig-ca-file-override=%s" .) -}}
{{- end -}}
{{- with .Values.publishedResourceSelector -}}
{{- $args = append $args (printf "--published-resource-selector=%s" .) -}}
{{- end -}}
{{- with .Values.disabledControllers -}}
{{- $args = append $args (printf "--disabled-controllers=%s" (join "," .)) -}}
{{- end -}}
{{- if include "hawser.probes" . -}}
{{- $args = append $args (printf "--health-address=:%d" (int .Values.probes.port)) -}}
{{- end -}}
{{- if include "hawser.ownMetrics" . -}}
{{- $args = append $args (printf "--metrics-address=:%d" (int .Values.metrics.port)) -}}
{{- end -}}
{{- toYaml (concat $args (.Values.extraFlags | default list)) -}}
{{- end -}}

{{/* The fields of securityContext that belong to a container; the others belong to the Pod. */}}
{{- define "hawser.containerFields" -}}
allowPrivilegeEscalation capabilities privileged procMount readOnlyRootFilesystem
{{- end -}}
