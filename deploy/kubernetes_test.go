package deploy_test

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
)

// manifests are the objects of deploy/kubernetes. Objects of one kind have different names.
type manifests []object

type object interface {
	GetName() string
	GetNamespace() string
}

// newObject returns an empty object of a kind.
func newObject[T any, P interface {
	*T
	object
}]() object {
	return P(new(T))
}

var kinds = map[string]func() object{
	"v1 Namespace":                             newObject[core.Namespace],
	"v1 ServiceAccount":                        newObject[core.ServiceAccount],
	"rbac.authorization.k8s.io/v1 Role":        newObject[rbac.Role],
	"rbac.authorization.k8s.io/v1 RoleBinding": newObject[rbac.RoleBinding],
	"networking.k8s.io/v1 NetworkPolicy":       newObject[networking.NetworkPolicy],
	"v1 ConfigMap":                             newObject[core.ConfigMap],
	"v1 PersistentVolumeClaim":                 newObject[core.PersistentVolumeClaim],
	"v1 Service":                               newObject[core.Service],
	"apps/v1 Deployment":                       newObject[apps.Deployment],
	"policy/v1 PodDisruptionBudget":            newObject[policy.PodDisruptionBudget],
	"batch/v1 Job":                             newObject[batch.Job],
}

// objectsOf returns the objects of a kind by name.
func objectsOf[T object](m manifests) map[string]T {
	objects := map[string]T{}
	for _, o := range m {
		if o, ok := o.(T); ok {
			objects[o.GetName()] = o
		}
	}
	return objects
}

// loadManifests decodes the manifests as Kubernetes does: an unknown field is an error.
func loadManifests(t *testing.T) (m manifests) {
	t.Helper()
	files := expect.Get(filepath.Glob("kubernetes/*/*.yaml"))(t)
	seen := map[string]bool{}
	for _, file := range append(files, "kubernetes/job.yaml", "kubernetes/prometheus.yaml") {
		for text := range strings.SplitSeq(string(read(t, file)), "\n---\n") {
			var header struct{ APIVersion, Kind string }
			expect.OK(t, yaml.Unmarshal([]byte(text), &header))
			kind := header.APIVersion + " " + header.Kind
			if kinds[kind] == nil {
				t.Fatalf("%s: there is no %s", file, kind)
			}
			o := kinds[kind]()
			// Like the API server, this compares the case of names, which encoding/json ignores.
			b, err := yaml.YAMLToJSONStrict([]byte(text))
			expect.OK(t, err)
			strict, err := json.UnmarshalStrict(b, o)
			if err := errors.Join(append(strict, err)...); err != nil {
				t.Fatalf("%s: %s: %v\n%s", file, kind, err, text)
			}
			_, cluster := o.(*core.Namespace)
			name, space := o.GetName(), o.GetNamespace()
			if seen[kind+name] || cluster != (space == "") || !cluster && space != "hafvf" {
				t.Fatalf("%s: the name %q in the namespace %q is taken, or the namespace is another", file, name, space)
			}
			seen[kind+name] = true
			m = append(m, o)
		}
	}
	return m
}

// pods returns the templates of all pods, by the name of their Deployment or Job.
func (m manifests) pods() map[string]core.PodTemplateSpec {
	pods := map[string]core.PodTemplateSpec{}
	for name, d := range objectsOf[*apps.Deployment](m) {
		pods[name] = d.Spec.Template
	}
	for name, j := range objectsOf[*batch.Job](m) {
		pods[name] = j.Spec.Template
	}
	return pods
}

func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

// The references of the objects exist, and the namespace accepts the pods.
func TestKubernetes(t *testing.T) {
	m := loadManifests(t)
	level := objectsOf[*core.Namespace](m)["hafvf"].Labels["pod-security.kubernetes.io/enforce"]
	expect.Same(t, "restricted", level, "pod security of the namespace")
	for name, pod := range m.pods() {
		m.checkPod(t, name, pod)
	}
	for name, d := range objectsOf[*apps.Deployment](m) {
		expect.Same(t, d.Spec.Template.Labels, d.Spec.Selector.MatchLabels, name, ": its pods")
	}
	for name, s := range objectsOf[*core.Service](m) {
		found := false
		for _, pod := range m.pods() {
			found = found || matches(s.Spec.Selector, pod.Labels) && slices.ContainsFunc(containers(pod.Spec), func(c core.Container) bool {
				return slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return p.ContainerPort == s.Spec.Ports[0].Port })
			})
		}
		if !found {
			t.Errorf("the service %s has no pods that listen on its port", name)
		}
	}
	for name, b := range objectsOf[*policy.PodDisruptionBudget](m) {
		expect.Same(t, objectsOf[*apps.Deployment](m)[name].Spec.Selector, b.Spec.Selector, "the pods of the budget ", name)
	}
	for name, b := range objectsOf[*rbac.RoleBinding](m) {
		if _, ok := objectsOf[*rbac.Role](m)[b.RoleRef.Name]; !ok || objectsOf[*core.ServiceAccount](m)[b.Subjects[0].Name] == nil {
			t.Errorf("the binding %s binds nothing: %+v", name, b)
		}
	}
	for _, rule := range objectsOf[*networking.NetworkPolicy](m)["hafvf"].Spec.Ingress {
		for _, p := range rule.Ports {
			port := p.Port.IntVal
			if !slices.ContainsFunc(slices.Collect(maps.Values(m.pods())), func(pod core.PodTemplateSpec) bool {
				return slices.ContainsFunc(containers(pod.Spec), func(c core.Container) bool {
					return slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool {
						return p.ContainerPort == port && slices.Contains([]string{"metrics", "worker"}, p.Name)
					})
				})
			}) {
				t.Errorf("port %d is open to others", port)
			}
		}
	}
}

func containers(pod core.PodSpec) []core.Container {
	return slices.Concat(pod.InitContainers, pod.Containers)
}

func (m manifests) checkPod(t *testing.T, name string, pod core.PodTemplateSpec) {
	t.Helper()
	podContext := pod.Spec.SecurityContext
	if podContext == nil || podContext.RunAsNonRoot == nil || !*podContext.RunAsNonRoot || podContext.SeccompProfile == nil || podContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: refused by the namespace: %+v", name, podContext)
	}
	if account := pod.Spec.ServiceAccountName; account != "" && objectsOf[*core.ServiceAccount](m)[account] == nil {
		t.Errorf("%s: there is no account %s", name, account)
	} else if account == "" && (pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken) {
		t.Errorf("%s is given a token that it does not need", name)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = false
		if v.ConfigMap != nil && objectsOf[*core.ConfigMap](m)[v.ConfigMap.Name] == nil {
			t.Errorf("%s: there is no ConfigMap %s", name, v.ConfigMap.Name)
		}
		if c := v.PersistentVolumeClaim; c != nil && objectsOf[*core.PersistentVolumeClaim](m)[c.ClaimName] == nil {
			t.Errorf("%s: there is no claim %s", name, v.PersistentVolumeClaim.ClaimName)
		}
	}
	users := map[string]string{"hafvf": "65532", "hafvf-jobserver": "65532", "hafvf-flink": "9999"}
	for _, c := range containers(pod.Spec) {
		place := name + ": " + c.Name
		for _, v := range c.VolumeMounts {
			if _, ok := volumes[v.Name]; !ok {
				t.Errorf("%s: there is no volume %s", place, v.Name)
			}
			volumes[v.Name] = true
		}
		context := c.SecurityContext
		if context == nil || context.AllowPrivilegeEscalation == nil || *context.AllowPrivilegeEscalation || context.ReadOnlyRootFilesystem == nil || !*context.ReadOnlyRootFilesystem ||
			context.Capabilities == nil || !slices.Contains(context.Capabilities.Drop, "ALL") {
			t.Errorf("%s: refused by the namespace, or with unneeded write access: %+v", place, context)
			continue
		}
		var user int64
		for _, u := range []*int64{podContext.RunAsUser, context.RunAsUser} {
			if u != nil {
				user = *u
			}
		}
		expect.Same(t, users[c.Image], fmt.Sprint(user), place, ": the user of the image ", c.Image)
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() || !c.Resources.Limits.Cpu().IsZero() {
			t.Errorf("%s: %+v", place, c.Resources)
		}
		for _, probe := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if probe == nil {
				continue
			}
			var port string
			if probe.HTTPGet != nil {
				port = probe.HTTPGet.Port.String()
			} else {
				port = probe.TCPSocket.Port.String()
			}
			if !slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return p.Name == port }) {
				t.Errorf("%s is probed at the port %s, which it lacks", place, port)
			}
		}
		if job := objectsOf[*batch.Job](m)[name] != nil; job == (c.LivenessProbe != nil) || job == (c.StartupProbe != nil) {
			t.Errorf("%s: no liveness or startup probe", place)
		}
	}
	for v, mounted := range volumes {
		if !mounted {
			t.Errorf("%s: the volume %s is mounted nowhere", name, v)
		}
	}
}

// The manifests, Flink's configuration and the job's config agree.
func TestKubernetesFlink(t *testing.T) {
	m := loadManifests(t)
	settings := flinkConfig(t, []byte(objectsOf[*core.ConfigMap](m)["flink"].Data["config.yaml"]))
	if got, want := strings.TrimSpace(objectsOf[*core.ConfigMap](m)["flink"].Data["log4j-console.properties"]), strings.TrimSpace(string(read(t, "flink/log4j-console.properties"))); got != want {
		t.Errorf("the logs differ from those of compose.flink.yaml:\n%s", cmp.Diff(want, got))
	}
	// Compose and Kubernetes have the same settings except for these.
	differing := []string{"jobmanager.rpc.address", "rest.address", "taskmanager.memory.process.size", "taskmanager.data.port"}
	for key, v := range flinkConfig(t, read(t, "flink/config.yaml")) {
		if settings[key] != v && !slices.Contains(differing, key) {
			t.Errorf("%s is %q, and %q in flink/config.yaml", key, settings[key], v)
		}
	}
	expect.Same(t, "hafvf", settings["kubernetes.namespace"], "kubernetes.namespace")
	cfg := expect.Get(config.Parse("job.yaml", []byte(objectsOf[*core.ConfigMap](m)["hafvf"].Data["config.yaml"]), nil))(t)
	g := expect.Get(pipeline.Compose(cfg))(t)
	r := g.Runner
	service := func(address, caller string) {
		t.Helper()
		host, port, _ := strings.Cut(address, ":")
		s := objectsOf[*core.Service](m)[host]
		if s == nil || len(s.Spec.Ports) == 0 || fmt.Sprint(s.Spec.Ports[0].Port) != port {
			t.Errorf("%s: there is no service at %s", caller, address)
		}
	}
	service(r.Cluster.Endpoint, "runner.endpoint")
	rest := expect.Get(url.Parse(r.Cluster.REST))(t)
	service(rest.Host, "runner.rest")
	if args := objectsOf[*apps.Deployment](m)["beam-jobserver"].Spec.Template.Spec.Containers[0].Args; !slices.Equal(args, []string{"--flink-master=" + rest.Host}) {
		t.Errorf("the job server's arguments are %q", args)
	}
	taskManagers := objectsOf[*apps.Deployment](m)["flink-taskmanager"].Spec
	worker, taskManager := taskManagers.Template.Spec.InitContainers[0], taskManagers.Template.Spec.Containers[0]
	if !slices.Equal(worker.Args, []string{"worker", "--address", r.Worker, "--listen", "0.0.0.0:9090"}) || worker.RestartPolicy == nil || *worker.RestartPolicy != core.ContainerRestartPolicyAlways {
		t.Errorf("the worker is not beside its TaskManager: %+v", worker)
	}
	// If one TaskManager is lost, the others have enough slots.
	slots := number(t, settings, "taskmanager.numberOfTaskSlots")
	if spare := (int(*taskManagers.Replicas) - 1) * slots; spare < r.Parallelism {
		t.Errorf("with one TaskManager lost there are %d slots, and the job takes %d", spare, r.Parallelism)
	}
	jobManager := objectsOf[*apps.Deployment](m)["flink-jobmanager"].Spec.Template.Spec.Containers[0]
	for _, limit := range []struct {
		c    core.Container
		size string
	}{{taskManager, settings["taskmanager.memory.process.size"]}, {jobManager, settings["jobmanager.memory.process.size"]}} {
		size := map[string]string{"3g": "3Gi", "1600m": "1600Mi"}[limit.size]
		expect.Same(t, size, limit.c.Resources.Limits.Memory().String(), limit.c.Name, ", of which Flink takes ", limit.size)
	}
	for port, c := range map[string]core.Container{
		"jobmanager.rpc.port": jobManager, "high-availability.jobmanager.port": jobManager, "blob.server.port": jobManager, "rest.port": jobManager,
		"taskmanager.rpc.port": taskManager, "taskmanager.data.port": taskManager, "metrics.reporter.prom.port": taskManager,
	} {
		if !slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return int(p.ContainerPort) == number(t, settings, port) }) {
			t.Errorf("%s does not offer %s", c.Name, port)
		}
	}
	for _, key := range []string{"state.checkpoints.dir", "state.savepoints.dir", "high-availability.storageDir", "state.backend.rocksdb.localdir"} {
		folder := strings.TrimPrefix(settings[key], "file://")
		if !slices.ContainsFunc(taskManager.VolumeMounts, func(v core.VolumeMount) bool {
			return folder == v.MountPath || strings.HasPrefix(folder, v.MountPath+"/")
		}) {
			t.Errorf("%s: %s is on no volume", key, folder)
		}
	}
	// Both the submitting job and the worker can read the files that the config names.
	for _, c := range []core.Container{worker, objectsOf[*batch.Job](m)["hafvf-submit"].Spec.Template.Spec.Containers[0]} {
		if !slices.ContainsFunc(c.VolumeMounts, func(v core.VolumeMount) bool { return v.MountPath == "/run/secrets" }) {
			t.Errorf("%s does not see the secrets", c.Name)
		}
	}
}
