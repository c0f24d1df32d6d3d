{{- define "edgeloop.name" -}}
{{- printf "%s-%s" .root.Release.Name .part | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "edgeloop.labels" -}}
app.kubernetes.io/name: edgeloop
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{ include "edgeloop.selector" . }}
{{- end }}

{{- define "edgeloop.selector" -}}
app.kubernetes.io/part-of: {{ printf "%s-edgeloop" .root.Release.Name | trunc 63 }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{/* Image of a kind of process: dict root, kind */}}
{{- define "edgeloop.image" -}}
{{- $image := index .root.Values.image .kind -}}
{{- $registry := .root.Values.image.registry -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "edgeloop.secret" -}}
{{- required "secrets.existingSecret names the secret with the platform's passwords; make it first (docs/how-to/install-on-kubernetes.md)" .Values.secrets.existingSecret -}}
{{- end }}

{{- define "edgeloop.keysSecret" -}}
{{- required "secrets.signingKeysSecret names the secret with the signing keys; make it first (docs/how-to/install-on-kubernetes.md)" .Values.secrets.signingKeysSecret -}}
{{- end }}

{{/* Pod-wide settings: dict root, part */}}
{{- define "edgeloop.pod" -}}
serviceAccountName: {{ .root.Release.Name }}-edgeloop
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- if .root.Values.topologySpread }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "edgeloop.selector" . | nindent 8 }}
{{- end }}
{{- end }}

{{- define "edgeloop.locked" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Environment of our own processes: dict root, process */}}
{{- define "edgeloop.env" -}}
{{- $secret := include "edgeloop.secret" .root -}}
{{- $values := .root.Values -}}
- {name: EDGELOOP_DATABASE_URL, valueFrom: {secretKeyRef: {name: {{ $secret }}, key: database-url}}}
- {name: EDGELOOP_REDIS_URL, valueFrom: {secretKeyRef: {name: {{ $secret }}, key: redis-url}}}
- {name: EDGELOOP_SERVICE_TOKEN, valueFrom: {secretKeyRef: {name: {{ $secret }}, key: service-token}}}
- {name: AWS_ACCESS_KEY_ID, valueFrom: {secretKeyRef: {name: {{ $secret }}, key: s3-access-key}}}
- {name: AWS_SECRET_ACCESS_KEY, valueFrom: {secretKeyRef: {name: {{ $secret }}, key: s3-secret-key}}}
- {name: AWS_REGION, value: {{ $values.objectStore.region | quote }}}
{{- if $values.objectStore.bundled }}
- {name: AWS_ENDPOINT, value: {{ printf "http://%s:8333" (include "edgeloop.name" (dict "root" .root "part" "objectstore")) | quote }}}
- {name: AWS_ALLOW_HTTP, value: "true"}
{{- else if $values.objectStore.endpoint }}
- {name: AWS_ENDPOINT, value: {{ $values.objectStore.endpoint | quote }}}
{{- end }}
- {name: EDGELOOP_STORAGE_URL, value: {{ printf "s3://%s" $values.objectStore.bucket | quote }}}
- {name: EDGELOOP_STATE_DIR, value: /var/lib/edgeloop}
- {name: EDGELOOP_BASE_URL, value: {{ printf "http://%s:8080" (include "edgeloop.name" (dict "root" .root "part" "gateway")) | quote }}}
- {name: EDGELOOP_PREFECT_API_URL, value: {{ include "edgeloop.prefect" .root | quote }}}
- {name: EDGELOOP_MLFLOW_TRACKING_URI, value: {{ include "edgeloop.mlflow" .root | quote }}}
- {name: EDGELOOP_LOG_LEVEL, value: {{ $values.logLevel | quote }}}
{{- if $values.tracing.endpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ $values.tracing.endpoint | quote }}}
- {name: OTEL_TRACES_SAMPLER, value: parentbased_traceidratio}
- {name: OTEL_TRACES_SAMPLER_ARG, value: {{ $values.tracing.share | quote }}}
{{- end }}
- {name: EDGELOOP_METRICS_PORT, value: "9464"}
- {name: EDGELOOP_METRICS_HOST, value: 0.0.0.0}
- {name: OMP_NUM_THREADS, value: "1"}
{{- end }}

{{- define "edgeloop.prefect" -}}
{{- if .Values.prefect.bundled }}http://{{ include "edgeloop.name" (dict "root" . "part" "prefect") }}:4200/api
{{- else }}{{ required "prefect.url is the address of the external Prefect API" .Values.prefect.url }}{{ end -}}
{{- end }}

{{- define "edgeloop.mlflow" -}}
{{- if .Values.mlflow.bundled }}http://{{ include "edgeloop.name" (dict "root" . "part" "mlflow") }}:5000
{{- else }}{{ required "mlflow.url is the address of the external MLflow server" .Values.mlflow.url }}{{ end -}}
{{- end }}

{{/* Init container: wait until the database has this code's revision. */}}
{{- define "edgeloop.wait" -}}
- name: wait-for-database
  image: {{ include "edgeloop.image" (dict "root" .root "kind" "services") }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [python, -m, services.operations.bootstrap, wait]
  env: {{- include "edgeloop.env" . | nindent 4 }}
  securityContext: {{- include "edgeloop.locked" . | nindent 4 }}
  resources: {requests: {cpu: 50m, memory: 192Mi}, limits: {cpu: 500m, memory: 512Mi}}
  volumeMounts: [{name: tmp, mountPath: /tmp}]
{{- end }}

{{/* Init container: signing keys, copied so that nobody else can read them (a secret volume is readable for its group). */}}
{{- define "edgeloop.keys" -}}
- name: signing-keys
  image: {{ include "edgeloop.image" (dict "root" .root "kind" "services") }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [sh, -ec, "mkdir -p /var/lib/edgeloop/keys/releases && install -m 0600 /keys/*.pem /var/lib/edgeloop/keys/releases/"]
  securityContext: {{- include "edgeloop.locked" . | nindent 4 }}
  resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {cpu: 100m, memory: 64Mi}}
  volumeMounts: [{name: state, mountPath: /var/lib/edgeloop}, {name: keys, mountPath: /keys, readOnly: true}]
{{- end }}
