{{- define "portico.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (dict "root" $ "part" "gateway") */}}
{{- define "portico.name" -}}
{{- printf "%s-%s" (include "portico.fullname" .root) .part -}}
{{- end -}}

{{- define "portico.selector" -}}
app.kubernetes.io/name: portico
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "portico.labels" -}}
{{ include "portico.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: portico
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "portico.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "portico.secretName" -}}
{{- .Values.secrets.existingSecret | default (include "portico.name" (dict "root" . "part" "secrets")) -}}
{{- end -}}

{{- define "portico.anyHost" -}}
{{- ternary "[::]" "0.0.0.0" (eq .Values.ipFamily "IPv6") -}}
{{- end -}}

{{- define "portico.controlUrl" -}}
http://{{ include "portico.name" (dict "root" . "part" "control") }}:8081
{{- end -}}

{{- define "portico.consoleUrl" -}}
http://{{ include "portico.name" (dict "root" . "part" "console") }}:{{ .Values.control.service.port }}
{{- end -}}

{{- define "portico.advertisedHost" -}}
{{- .Values.gateway.advertisedHost | default (printf "%s.%s.svc.%s" (include "portico.name" (dict "root" . "part" "gateway")) .Release.Namespace .Values.clusterDomain) -}}
{{- end -}}

{{- define "portico.zookeeper" -}}
{{- if eq .Values.zookeeper.mode "bundled" -}}
{{ include "portico.name" (dict "root" . "part" "zookeeper") }}:2181/portico
{{- else if eq .Values.zookeeper.mode "external" -}}
{{ .Values.zookeeper.connect }}
{{- end -}}
{{- end -}}

{{/* (dict "root" $ "wanted" 3): none while a backup is restored. */}}
{{- define "portico.replicas" -}}
{{- ternary 0 (int .wanted) (ne .root.Values.restore.file "") -}}
{{- end -}}

{{/* What `portico backup` and `restore` are told of where things are. */}}
{{- define "portico.backupPlaces" -}}
- --data-dir=/var/lib/portico/data
- --secret-file=/etc/portico/secrets/internal-secret
- --zookeeper={{ include "portico.zookeeper" . }}
{{- end -}}

{{/* Environment of both: the store's URL, the passphrase. */}}
{{- define "portico.backupEnv" -}}
{{- if ne .Values.postgres.mode "none" }}
- name: PORTICO_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.postgres.existingSecret | default (include "portico.name" (dict "root" . "part" "postgres")) }}
      key: url
{{- end }}
{{- with .Values.backup.passphraseSecret }}
- name: PORTICO_BACKUP_PASSPHRASE
  valueFrom: {secretKeyRef: {name: {{ . }}, key: passphrase}}
{{- end }}
{{- end -}}

{{- define "portico.backupClaim" -}}
{{- .Values.backup.persistence.existingClaim | default (include "portico.name" (dict "root" . "part" "backup")) -}}
{{- end -}}

{{/* Where the store is, while it is SQLite; a directory for one run where it is Postgres. */}}
{{- define "portico.backupData" -}}
- name: data
{{- if eq .Values.postgres.mode "none" }}
  persistentVolumeClaim: {claimName: {{ include "portico.name" (dict "root" . "part" "control") }}}
{{- else }}
  emptyDir: {}
{{- end }}
{{- end -}}

{{- define "portico.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "portico.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "portico.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: PORTICO_HANG_TIMEOUT_MS
  value: {{ .Values.hangTimeoutMs | int64 | quote }}
{{- with .Values.traces }}
{{- if .endpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .endpoint | quote }}}
- {name: OTEL_TRACES_SAMPLER, value: parentbased_traceidratio}
- {name: OTEL_TRACES_SAMPLER_ARG, value: {{ .ratio | quote }}}
- {name: PORTICO_TRACES_PER_SECOND, value: {{ .perSecond | int64 | quote }}}
{{- with .conventions }}
- {name: OTEL_SEMCONV_STABILITY_OPT_IN, value: {{ . | quote }}}
{{- end }}
{{- with .headersSecret }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom: {secretKeyRef: {name: {{ . }}, key: headers}}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The pod's placement: the component's own affinity, or spreading over nodes and zones. */}}
{{- define "portico.placement" -}}
{{- $own := index .root.Values .part -}}
{{- with $own.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $own.affinity }}
affinity: {{- toYaml $own.affinity | nindent 2 }}
{{- else }}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "portico.selector" . | fromYaml)) }}
affinity:
  podAntiAffinity:
    {{- if .required }}
    requiredDuringSchedulingIgnoredDuringExecution: {{- list $term | toYaml | nindent 6 }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution: {{- list (dict "weight" 100 "podAffinityTerm" $term) | toYaml | nindent 6 }}
    {{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {{ include "portico.selector" . | fromYaml | toJson }}}
{{- end }}
{{- end -}}

{{- define "portico.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}


{{/* Where a URL of http or https leads. */}}
{{- define "portico.urlPort" -}}
{{- regexFind ":[0-9]+$" (urlParse .).host | trimPrefix ":" | default (ternary "443" "80" (hasPrefix "https:" .)) -}}
{{- end -}}

{{/* `more`: labels that pods of the part have beside. */}}
{{- define "portico.podMeta" -}}
labels: {{- include "portico.labels" . | nindent 2 }}
{{- with .more }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Not empty where a job of the pipeline has executors. */}}
{{- define "portico.executors" -}}
{{- if .Values.pipeline.enabled }}{{ range .Values.pipeline.jobs }}{{ if .executors }}some{{ end }}{{ end }}{{ end -}}
{{- end -}}

{{- define "portico.secretVolume" -}}
- name: secrets
  secret:
    secretName: {{ include "portico.secretName" . }}
    defaultMode: 0440
{{- end -}}


{{/* Where each cluster of Apache Kafka has a folder of its own. */}}
{{- define "portico.clustersDir" -}}
/etc/portico/clusters
{{- end -}}

{{- define "portico.clusterArgs" -}}
{{- if .Values.clusters }}
- --credentials-dir={{ include "portico.clustersDir" . }}
{{- end }}
{{- end -}}

{{/* Whole volumes: a file mounted by itself (subPath) would never change. */}}
{{- define "portico.clusterMounts" -}}
{{- range $name, $cluster := .Values.clusters }}
{{- if $cluster.secret }}
- {name: cluster-{{ $name }}, mountPath: {{ include "portico.clustersDir" $ }}/{{ $name }}, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{- define "portico.clusterVolumes" -}}
{{- range $name, $cluster := .Values.clusters }}
{{- with $cluster.secret }}
- name: cluster-{{ $name }}
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- end -}}

{{- define "portico.gatewayServiceType" -}}
{{- $service := .Values.gateway.service -}}
{{- if eq $service.type "Headless" -}}
clusterIP: None # clients connect to the pods' addresses, at any port
{{- else -}}
type: {{ $service.type }}
{{- if ne $service.type "ClusterIP" }}
externalTrafficPolicy: {{ $service.externalTrafficPolicy }}
{{- end }}
{{- if eq $service.type "LoadBalancer" }}
allocateLoadBalancerNodePorts: true
{{- with $service.loadBalancerClass }}
loadBalancerClass: {{ . }}
{{- end }}
{{- with $service.loadBalancerIP }}
loadBalancerIP: {{ . }}
{{- end }}
{{- with $service.loadBalancerSourceRanges }}
loadBalancerSourceRanges: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}
