{{/* Labels of every object. */}}
{{- define "hub.labels" -}}
{{- $version := regexReplaceAllLiteral "[^-_.A-Za-z0-9]" (.Values.image.tag | default .Chart.AppVersion | toString) "_" | trunc 63 | trimAll "-_." -}}
{{ include "hub.selector" . }}
app.kubernetes.io/version: {{ $version | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "hub.selector" -}}
app.kubernetes.io/name: hub-agent
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}
