{{/* Labels of every object. */}}
{{- define "member.labels" -}}
{{- $version := regexReplaceAllLiteral "[^-_.A-Za-z0-9]" (.Values.image.tag | default .Chart.AppVersion | toString) "_" | trunc 63 | trimAll "-_." -}}
{{ include "member.selector" . }}
app.kubernetes.io/version: {{ $version | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "member.selector" -}}
app.kubernetes.io/name: member-agent
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}
