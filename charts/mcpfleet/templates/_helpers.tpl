{{- define "mcpfleet.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "mcpfleet.fullname" -}}
{{- $name := include "mcpfleet.name" . }}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Objects without a namespace carry the release's in their name, so that two installs do not meet. */}}
{{- define "mcpfleet.clusterName" -}}
{{ include "mcpfleet.fullname" . }}.{{ .Release.Namespace }}
{{- end }}

{{- define "mcpfleet.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "mcpfleet.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "mcpfleet.selectorLabels" -}}
app.kubernetes.io/name: {{ include "mcpfleet.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mcpfleet.labels" -}}
{{ include "mcpfleet.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "mcpfleet.image" -}}
{{- with .Values.global.imageRegistry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{- define "mcpfleet.publicURL" -}}
{{ default (printf "http://%s.%s.svc:%v" (include "mcpfleet.fullname" .) .Release.Namespace .Values.service.port) .Values.publicURL }}
{{- end }}

{{/* Objects that the program itself makes: its lease and its root key. Called with the context and a suffix. */}}
{{- define "mcpfleet.ownName" -}}
mcpfleet{{ last . }}{{ with (first .).Values.class }}-{{ . }}{{ end }}
{{- end }}
