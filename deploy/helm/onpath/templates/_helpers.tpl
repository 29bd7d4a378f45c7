{{- define "onpath.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "onpath.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "onpath.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "onpath.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "onpath.selector" -}}
app.kubernetes.io/name: {{ include "onpath.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: collector
{{- end -}}

{{- define "onpath.loadBalancerSelector" -}}
app.kubernetes.io/name: {{ include "onpath.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: loadbalancer
{{- end -}}

{{- define "onpath.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "onpath.isSidecar" -}}
{{- if hasPrefix "sidecar" .Values.mode }}yes{{ end -}}
{{- end -}}

{{- define "onpath.policyName" -}}
{{- default (printf "%s-policy" (include "onpath.fullname" .)) .Values.existingPolicy -}}
{{- end -}}

{{- /* What the mode needs; .Values.config is laid over it. Memory adds up to less than the limit below. */ -}}
{{- define "onpath.modeConfig" -}}
{{- if include "onpath.isSidecar" . }}
receivers:
  grpc: {max_request: 16MiB, max_in_flight: 64MiB}
  http: {max_request: 16MiB, max_in_flight: 32MiB}
buffer: {memory_limit: 128MiB, late_bytes: 32MiB}
forward: {queue: {bytes: 64MiB}}
durability: {mode: journal, directory: /var/lib/onpath/journal, max_bytes: 512MiB}
evaluate: {workers: 1}
{{- else }}
receivers:
  grpc: {endpoint: "0.0.0.0:4317", max_in_flight: 256MiB}
  http: {endpoint: "0.0.0.0:4318", max_in_flight: 128MiB}
buffer: {memory_limit: 768MiB, late_bytes: 64MiB{{ if eq .Values.mode "sharded" }}, settle_delay: 10s{{ end }}}
forward: {queue: {bytes: 256MiB}}
durability: {mode: journal, directory: /var/lib/onpath/journal, max_bytes: 2GiB}
evaluate: {workers: 2}
{{- end }}
{{- if .Values.admin.tokenSecret }}
admin: {endpoint: "0.0.0.0:13133", bearer_token_files: ["/etc/onpath/admin/{{ .Values.admin.tokenKey }}"]}
{{- end }}
{{- if eq .Values.mode "sharded" }}
gateway: {members: {{ include "onpath.fullname" . }}-shards}
{{- end }}
policy: /etc/onpath/policy/policy.yaml
shutdown_timeout: 20s
log: {format: json}
{{- end -}}

{{- define "onpath.config" -}}
{{- toYaml (mergeOverwrite (fromYaml (include "onpath.modeConfig" .)) (deepCopy .Values.config)) -}}
{{- end -}}

{{- define "onpath.resources" -}}
{{- if .Values.resources -}}
{{ toYaml .Values.resources }}
{{- else if include "onpath.isSidecar" . -}}
requests: {cpu: 50m, memory: 160Mi}
limits: {cpu: "1", memory: 512Mi}
{{- else -}}
requests: {cpu: 500m, memory: 512Mi}
limits: {cpu: "3", memory: 2Gi}
{{- end -}}
{{- end -}}

{{- /* Whole seconds of a duration as onpath writes it; empty for what is none. */ -}}
{{- define "onpath.seconds" -}}
{{- $text := toString . | nospace -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $text -}}
{{- $unit := trimPrefix $number $text -}}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "min" 60.0 "h" 3600.0 -}}
{{- if and $number (hasKey $units $unit) -}}
{{- mulf (float64 $number) (get $units $unit) | ceil | int -}}
{{- end -}}
{{- end -}}

{{- /* How long the collector goes on after it is told to end, before it stops accepting. */ -}}
{{- define "onpath.waits" -}}
{{- ternary .Values.agent.shutdownSeconds .Values.preStopSeconds (eq "yes" (include "onpath.isSidecar" .)) -}}
{{- end -}}

{{- define "onpath.grace" -}}
{{- $timeout := include "onpath.seconds" (fromYaml (include "onpath.config" .)).shutdown_timeout -}}
{{- $given := .Values.terminationGracePeriodSeconds -}}
{{- $least := add (include "onpath.waits" . | int) (default "0" $timeout | int) -}}
{{- if and (not $given) (not $timeout) -}}
{{- fail "config.shutdown_timeout is not written out: set terminationGracePeriodSeconds to more than it can be" -}}
{{- else if and $given (le (int $given) (int $least)) -}}
{{- fail (printf "terminationGracePeriodSeconds (%d) must be more than the collector waits and config.shutdown_timeout take (%d)" (int $given) (int $least)) -}}
{{- end -}}
{{- $given | default (add $least 15) -}}
{{- end -}}

{{- define "onpath.podAnnotations" -}}
checksum/config: {{ include "onpath.config" . | sha256sum }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "onpath.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- /* Refuses what would start and then do nothing. */ -}}
{{- define "onpath.check" -}}
{{- if not (or .Values.policy .Values.existingPolicy .Values.config.policy) -}}
{{- fail "there is no policy: --set-file policy=policy.yaml, or existingPolicy" -}}
{{- end -}}
{{- if and .Values.policy .Values.existingPolicy -}}
{{- fail "policy and existingPolicy: only one of them" -}}
{{- end -}}
{{- if and (include "onpath.isSidecar" .) (not .Values.agent.containers) -}}
{{- fail "a sidecar needs agent.containers" -}}
{{- end -}}
{{- if and (eq .Values.mode "sidecar") (semverCompare "<1.29.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail "mode sidecar needs Kubernetes 1.29; before it, sidecarOlder" -}}
{{- end -}}
{{- if and .Values.data.persistence.enabled (ne .Values.mode "sharded") -}}
{{- fail "data.persistence is for mode sharded" -}}
{{- end -}}
{{- end -}}
