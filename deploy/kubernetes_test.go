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

// manifests are the objects of deploy/kubernetes.
type manifests struct {
	namespaces      map[string]core.Namespace
	accounts        map[string]core.ServiceAccount
	roles           map[string]rbac.Role
	bindings        map[string]rbac.RoleBinding
	networkPolicies map[string]networking.NetworkPolicy
	configs         map[string]core.ConfigMap
	claims          map[string]core.PersistentVolumeClaim
	services        map[string]core.Service
	deployments     map[string]apps.Deployment
	budgets         map[string]policy.PodDisruptionBudget
	jobs            map[string]batch.Job
}

// loadManifests decodes them as Kubernetes does, where a field that there is not is
// an error.
func loadManifests(t *testing.T) manifests {
	t.Helper()
	files := expect.Get(filepath.Glob("kubernetes/*/*.yaml"))(t)
	m := manifests{
		map[string]core.Namespace{}, map[string]core.ServiceAccount{}, map[string]rbac.Role{}, map[string]rbac.RoleBinding{},
		map[string]networking.NetworkPolicy{}, map[string]core.ConfigMap{}, map[string]core.PersistentVolumeClaim{}, map[string]core.Service{},
		map[string]apps.Deployment{}, map[string]policy.PodDisruptionBudget{}, map[string]batch.Job{},
	}
	for _, file := range append(files, "kubernetes/job.yaml", "kubernetes/prometheus.yaml") {
		for text := range strings.SplitSeq(string(read(t, file)), "\n---\n") {
			var is struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal([]byte(text), &is); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			decode(t, file, text, is.APIVersion+" "+is.Kind, map[string]func() error{
				"v1 Namespace":                             into(text, m.namespaces),
				"v1 ServiceAccount":                        into(text, m.accounts),
				"rbac.authorization.k8s.io/v1 Role":        into(text, m.roles),
				"rbac.authorization.k8s.io/v1 RoleBinding": into(text, m.bindings),
				"networking.k8s.io/v1 NetworkPolicy":       into(text, m.networkPolicies),
				"v1 ConfigMap":                             into(text, m.configs),
				"v1 PersistentVolumeClaim":                 into(text, m.claims),
				"v1 Service":                               into(text, m.services),
				"apps/v1 Deployment":                       into(text, m.deployments),
				"policy/v1 PodDisruptionBudget":            into(text, m.budgets),
				"batch/v1 Job":                             into(text, m.jobs),
			})
		}
	}
	return m
}

func decode(t *testing.T, file, text, kind string, known map[string]func() error) {
	t.Helper()
	f := known[kind]
	if f == nil {
		t.Fatalf("%s: there is no %s", file, kind)
	}
	if err := f(); err != nil {
		t.Fatalf("%s: %s: %v\n%s", file, kind, err, text)
	}
}

// into decodes an object into those of its kind, by name.
func into[T any](text string, all map[string]T) func() error {
	return func() error {
		var o T
		// As the API server: with the case of names, which encoding/json passes over.
		b, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			return err
		}
		strict, err := json.UnmarshalStrict(b, &o)
		if err := errors.Join(append(strict, err)...); err != nil {
			return err
		}
		meta := any(&o).(interface {
			GetName() string
			GetNamespace() string
		})
		_, cluster := any(&o).(*core.Namespace)
		if _, twice := all[meta.GetName()]; twice || cluster != (meta.GetNamespace() == "") || !cluster && meta.GetNamespace() != "hafvf" {
			return fmt.Errorf("the name %q in the namespace %q is taken, or the namespace is another", meta.GetName(), meta.GetNamespace())
		}
		all[meta.GetName()] = o
		return nil
	}
}

// pods are the templates of all pods, by the name of what makes them.
func (m manifests) pods() map[string]core.PodTemplateSpec {
	all := map[string]core.PodTemplateSpec{}
	for name, d := range m.deployments {
		all[name] = d.Spec.Template
	}
	for name, j := range m.jobs {
		all[name] = j.Spec.Template
	}
	return all
}

func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

// What the objects refer to is there, and the pods are such as the namespace takes.
func TestKubernetes(t *testing.T) {
	m := loadManifests(t)
	if m.namespaces["hafvf"].Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Error("the namespace takes any pod")
	}
	for name, pod := range m.pods() {
		m.checkPod(t, name, pod)
	}
	for name, d := range m.deployments {
		if !cmp.Equal(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels) {
			t.Errorf("%s: its pods are not its own", name)
		}
	}
	for name, s := range m.services {
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
	for name, b := range m.budgets {
		if !cmp.Equal(b.Spec.Selector, m.deployments[name].Spec.Selector) {
			t.Errorf("the budget %s is of no pods", name)
		}
	}
	for name, b := range m.bindings {
		if _, ok := m.roles[b.RoleRef.Name]; !ok || m.accounts[b.Subjects[0].Name].Name == "" {
			t.Errorf("the binding %s binds nothing: %+v", name, b)
		}
	}
	for _, rule := range m.networkPolicies["hafvf"].Spec.Ingress {
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
	all := pod.Spec.SecurityContext
	if all == nil || all.RunAsNonRoot == nil || !*all.RunAsNonRoot || all.SeccompProfile == nil || all.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: the namespace does not take it: %+v", name, all)
	}
	if account := pod.Spec.ServiceAccountName; account != "" && m.accounts[account].Name == "" {
		t.Errorf("%s: there is no account %s", name, account)
	} else if account == "" && (pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken) {
		t.Errorf("%s is given a token that it does not need", name)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = false
		if v.ConfigMap != nil && m.configs[v.ConfigMap.Name].Name == "" {
			t.Errorf("%s: there is no ConfigMap %s", name, v.ConfigMap.Name)
		}
		if v.PersistentVolumeClaim != nil && m.claims[v.PersistentVolumeClaim.ClaimName].Name == "" {
			t.Errorf("%s: there is no claim %s", name, v.PersistentVolumeClaim.ClaimName)
		}
	}
	users := map[string]string{"hafvf": "65532", "hafvf-jobserver": "65532", "hafvf-flink": "9999"}
	for _, c := range containers(pod.Spec) {
		at := name + ": " + c.Name
		for _, v := range c.VolumeMounts {
			if _, ok := volumes[v.Name]; !ok {
				t.Errorf("%s: there is no volume %s", at, v.Name)
			}
			volumes[v.Name] = true
		}
		own := c.SecurityContext
		if own == nil || own.AllowPrivilegeEscalation == nil || *own.AllowPrivilegeEscalation || own.ReadOnlyRootFilesystem == nil || !*own.ReadOnlyRootFilesystem ||
			own.Capabilities == nil || !slices.Contains(own.Capabilities.Drop, "ALL") {
			t.Errorf("%s: the namespace does not take it, or it may write where it need not: %+v", at, own)
			continue
		}
		var user int64
		for _, u := range []*int64{all.RunAsUser, own.RunAsUser} {
			if u != nil {
				user = *u
			}
		}
		if fmt.Sprint(user) != users[c.Image] {
			t.Errorf("%s runs as another user than the image %s is for: %v", at, c.Image, user)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() || !c.Resources.Limits.Cpu().IsZero() {
			t.Errorf("%s: %+v", at, c.Resources)
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
				t.Errorf("%s is probed at the port %s, which it has not", at, port)
			}
		}
		if job := m.jobs[name].Name != ""; job == (c.LivenessProbe != nil) || job == (c.StartupProbe != nil) {
			t.Errorf("%s: nothing notices that it hangs, or that it has begun", at)
		}
	}
	for v, mounted := range volumes {
		if !mounted {
			t.Errorf("%s: the volume %s is mounted nowhere", name, v)
		}
	}
}

// The manifests, Flink's configuration and the job's config fit together.
func TestKubernetesFlink(t *testing.T) {
	m := loadManifests(t)
	settings := flinkConfig(t, []byte(m.configs["flink"].Data["config.yaml"]))
	if got, want := strings.TrimSpace(m.configs["flink"].Data["log4j-console.properties"]), strings.TrimSpace(string(read(t, "flink/log4j-console.properties"))); got != want {
		t.Errorf("the logs differ from those of compose.flink.yaml:\n%s", cmp.Diff(want, got))
	}
	// What compose has and what Kubernetes has are the same, but for this.
	own := []string{"jobmanager.rpc.address", "rest.address", "taskmanager.memory.process.size", "taskmanager.data.port"}
	for key, v := range flinkConfig(t, read(t, "flink/config.yaml")) {
		if settings[key] != v && !slices.Contains(own, key) {
			t.Errorf("%s is %q, and %q in flink/config.yaml", key, settings[key], v)
		}
	}
	if settings["kubernetes.namespace"] != "hafvf" {
		t.Errorf("kubernetes.namespace is %s", settings["kubernetes.namespace"])
	}
	cfg := expect.Get(config.Parse("job.yaml", []byte(m.configs["hafvf"].Data["config.yaml"]), nil))(t)
	g := expect.Get(pipeline.Compose(cfg))(t)
	r := g.Runner
	service := func(address, from string) {
		t.Helper()
		host, port, _ := strings.Cut(address, ":")
		s := m.services[host]
		if len(s.Spec.Ports) == 0 || fmt.Sprint(s.Spec.Ports[0].Port) != port {
			t.Errorf("%s: there is no service at %s", from, address)
		}
	}
	service(r.Cluster.Endpoint, "runner.endpoint")
	rest := expect.Get(url.Parse(r.Cluster.REST))(t)
	service(rest.Host, "runner.rest")
	if args := m.deployments["beam-jobserver"].Spec.Template.Spec.Containers[0].Args; !slices.Equal(args, []string{"--flink-master=" + rest.Host}) {
		t.Errorf("the job server's arguments are %q", args)
	}
	taskManagers := m.deployments["flink-taskmanager"].Spec
	worker, taskManager := taskManagers.Template.Spec.InitContainers[0], taskManagers.Template.Spec.Containers[0]
	if !slices.Equal(worker.Args, []string{"worker", "--address", r.Worker, "--listen", "0.0.0.0:9090"}) || worker.RestartPolicy == nil || *worker.RestartPolicy != core.ContainerRestartPolicyAlways {
		t.Errorf("the worker is not beside its TaskManager: %+v", worker)
	}
	// Where one is lost, the others have the slots.
	slots := number(t, settings, "taskmanager.numberOfTaskSlots")
	if spare := (int(*taskManagers.Replicas) - 1) * slots; spare < r.Parallelism {
		t.Errorf("with one TaskManager lost there are %d slots, and the job takes %d", spare, r.Parallelism)
	}
	jobManager := m.deployments["flink-jobmanager"].Spec.Template.Spec.Containers[0]
	for _, has := range []struct {
		c    core.Container
		size string
	}{{taskManager, settings["taskmanager.memory.process.size"]}, {jobManager, settings["jobmanager.memory.process.size"]}} {
		size := map[string]string{"3g": "3Gi", "1600m": "1600Mi"}[has.size]
		if got := has.c.Resources.Limits.Memory().String(); got != size {
			t.Errorf("%s has %s, and Flink takes %s of it", has.c.Name, got, has.size)
		}
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
	// What the config names as files, both who submits and who works read.
	for _, c := range []core.Container{worker, m.jobs["hafvf-submit"].Spec.Template.Spec.Containers[0]} {
		if !slices.ContainsFunc(c.VolumeMounts, func(v core.VolumeMount) bool { return v.MountPath == "/run/secrets" }) {
			t.Errorf("%s does not see the secrets", c.Name)
		}
	}
}
