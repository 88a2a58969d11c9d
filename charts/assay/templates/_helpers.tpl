{{/* Labels of every object; call with (dict "root" $ "component" "operator"). */}}
{{- define "assay.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{ include "assay.selector" . }}
{{- end }}

{{- define "assay.selector" -}}
app.kubernetes.io/name: assay
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* An image by digest, or a refusal that names the value and the fix. */}}
{{- define "assay.image" -}}
{{- if not .image }}
{{- fail (printf "%s is required: set it to an image by digest, as `python -m images list --json` prints it" .value) }}
{{- end }}
{{- if not (regexMatch "^[^@\\s]+@sha256:[0-9a-f]{64}$" .image) }}
{{- fail (printf "%s is %q: name the image by digest (registry/name@sha256:…), so that a later push under the same tag changes no measurement" .value .image) }}
{{- end }}
{{- .image }}
{{- end }}

{{/* Pod and container settings that the pod security level `restricted` asks for. */}}
{{- define "assay.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "assay.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Where evidence and ledgers lie; the same for operator and gateway. */}}
{{- define "assay.storageEnv" -}}
- {name: ASSAY_S3_ENDPOINT, value: {{ .Values.storage.endpoint | trimSuffix "/" | quote }}}
- {name: ASSAY_S3_REGION, value: {{ .Values.storage.region | quote }}}
- {name: ASSAY_S3_PATH_STYLE, value: {{ .Values.storage.pathStyle | quote }}}
- {name: ASSAY_S3_CHECKSUM_MODE, value: {{ .Values.storage.checksumMode | quote }}}
{{- with .Values.storage.credentialsSecret }}
- name: AWS_ACCESS_KEY_ID
  valueFrom: {secretKeyRef: {name: {{ . }}, key: AWS_ACCESS_KEY_ID}}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom: {secretKeyRef: {name: {{ . }}, key: AWS_SECRET_ACCESS_KEY}}
{{- end }}
{{- end }}

{{- define "assay.identityEnv" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
# HOME is on the one writable volume.
- {name: HOME, value: /tmp}
{{- end }}

{{- define "assay.scheduling" -}}
{{- with .imagePullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with .component.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .component.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
