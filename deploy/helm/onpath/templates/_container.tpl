{{- /* The collector's container, alike in every mode, and the volumes it has. */ -}}
{{- define "onpath.container" -}}
{{- $config := fromYaml (include "onpath.config" .) -}}
{{- $tls := dig "admin" "tls" "cert" "" $config -}}
{{- $health := list "onpath" "health" -}}
{{- if .Values.config.admin }}{{ $health = concat $health (list "--config" "/etc/onpath/config/onpath.yaml") }}{{ end -}}
name: onpath
image: {{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [collector, --config, /etc/onpath/config/onpath.yaml]
{{- with .Values.env }}
env: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.envFrom }}
envFrom: {{ toYaml . | nindent 2 }}
{{- end }}
{{- if or .Values.admin.tokenSecret (not (include "onpath.isSidecar" .)) }}
ports:
  {{- if not (include "onpath.isSidecar" .) }}
  - {name: otlp-grpc, containerPort: 4317}
  - {name: otlp-http, containerPort: 4318}
  {{- end }}
  {{- if .Values.admin.tokenSecret }}
  - {name: admin, containerPort: 13133}
  {{- end }}
{{- end }}
{{- if .Values.admin.tokenSecret }}
{{- $scheme := ternary "HTTPS" "HTTP" (ne "" (toString $tls)) }}
startupProbe:
  httpGet: {path: /healthz, port: admin, scheme: {{ $scheme }}}
  periodSeconds: 1
  failureThreshold: 120
readinessProbe:
  httpGet: {path: /healthz, port: admin, scheme: {{ $scheme }}}
  periodSeconds: 5
livenessProbe:
  httpGet: {path: /livez, port: admin, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
{{- else }}
startupProbe:
  exec: {command: {{ toJson $health }}}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 120
readinessProbe:
  exec: {command: {{ toJson $health }}}
  periodSeconds: 15
  timeoutSeconds: 5
livenessProbe:
  exec: {command: {{ toJson (append $health "--live") }}}
  periodSeconds: 30
  timeoutSeconds: 10
{{- end }}
{{- $waits := include "onpath.waits" . | int }}
{{- if and $waits (ne .Values.mode "sidecar") }}
lifecycle:
  preStop:
    exec: {command: [python, -c, "import time; time.sleep({{ $waits }})"]}
{{- end }}
resources: {{ include "onpath.resources" . | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
volumeMounts:
  - {name: onpath-config, mountPath: /etc/onpath/config, readOnly: true}
  {{- if not .Values.config.policy }}
  - {name: onpath-policy, mountPath: /etc/onpath/policy, readOnly: true}
  {{- end }}
  {{- if .Values.admin.tokenSecret }}
  - {name: onpath-admin, mountPath: /etc/onpath/admin, readOnly: true}
  {{- end }}
  {{- range $i, $secret := .Values.secrets }}
  - {name: secret-{{ $i }}, mountPath: {{ printf "/etc/onpath/secrets/%s" $secret.name }}, readOnly: true}
  {{- end }}
  - {name: onpath-data, mountPath: /var/lib/onpath}
  - {name: onpath-tmp, mountPath: /tmp}
{{- end -}}

{{- define "onpath.volumes" -}}
- {name: onpath-config, configMap: {name: {{ include "onpath.fullname" . }}-config}}
{{- if not .Values.config.policy }}
- {name: onpath-policy, configMap: {name: {{ include "onpath.policyName" . }}}}
{{- end }}
{{- if .Values.admin.tokenSecret }}
- {name: onpath-admin, secret: {secretName: {{ .Values.admin.tokenSecret }}, defaultMode: 0440}}
{{- end }}
{{- range $i, $secret := .Values.secrets }}
- {name: secret-{{ $i }}, secret: {secretName: {{ $secret.name }}, defaultMode: 0440}}
{{- end }}
{{- if not .Values.data.persistence.enabled }}
- {name: onpath-data, emptyDir: {sizeLimit: {{ .Values.data.sizeLimit }}}}
{{- end }}
- {name: onpath-tmp, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
{{- end -}}
