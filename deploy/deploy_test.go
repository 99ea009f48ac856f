// Package deploy_test checks the files of this folder against the program and a real broker. It neither needs nor
// uses a container engine.
package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.yaml.in/yaml/v3"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the runner's log
	os.Exit(m.Run())
}

var examples = []string{"plaintext.yaml", "tls.yaml", "mutual-tls.yaml", "sasl-plain.yaml", "scram-sha-256.yaml", "scram-sha-512.yaml", "flink.yaml", "prometheus.yaml"}

func read(t *testing.T, path string) []byte {
	t.Helper()
	return expect.Get(os.ReadFile(path))(t)
}

func graph(t *testing.T, example string, set ...string) *pipeline.Graph {
	t.Helper()
	cfg := expect.Get(config.Parse(example, read(t, example), set))(t)
	return expect.Get(pipeline.Compose(cfg))(t)
}

// composition has the parts of a compose file that the tests check.
type composition struct {
	Services map[string]service
	Volumes  map[string]any
	Secrets  map[string]struct{ File string }
}

type service struct {
	Image           string
	Build           struct{ Context, Dockerfile, Target string }
	Command         []string
	DependsOn       map[string]struct{ Condition string } `yaml:"depends_on"`
	Volumes         []string
	Secrets         []string
	Ports           []string
	Environment     map[string]string
	Restart         string
	StopGracePeriod string `yaml:"stop_grace_period"`
	Healthcheck     any
	NetworkMode     string `yaml:"network_mode"`
	ReadOnly        bool   `yaml:"read_only"`
}

func compose(t *testing.T, path string) (c composition) {
	t.Helper()
	expect.OK(t, yaml.Unmarshal(read(t, path), &c))
	return c
}

// Each example is a valid config, and a compose file has the secrets that it names.
func TestExamples(t *testing.T) {
	here := expect.Get(filepath.Glob("*.yaml"))(t)
	for _, name := range here {
		if !slices.Contains(examples, name) && !strings.HasPrefix(name, "compose") && name != "alerts.yaml" {
			t.Errorf("%s is not tested", name)
		}
	}
	secrets := compose(t, "compose.secure.yaml").Secrets
	secret := regexp.MustCompile(`/run/secrets/([^,}\s]+)`)
	for _, name := range examples {
		graph(t, name)
		for _, m := range secret.FindAllStringSubmatch(string(read(t, name)), -1) {
			if _, ok := secrets[m[1]]; !ok {
				t.Errorf("%s: no compose file has the secret %s", name, m[1])
			}
		}
	}
}

// check checks that the references of the services exist.
func (c composition) check(t *testing.T, name string) {
	t.Helper()
	for serviceName, s := range c.Services {
		if s.Image == "" {
			t.Errorf("%s: %s has no image", name, serviceName)
		}
		for other, condition := range s.DependsOn {
			switch o := c.Services[other]; {
			case o.Image == "":
				t.Errorf("%s: %s depends on %s", name, serviceName, other)
			case condition.Condition == "service_healthy" && o.Healthcheck == nil:
				t.Errorf("%s: %s waits for the health of %s, which has no check", name, serviceName, other)
			}
		}
		for _, v := range s.Volumes {
			source, target, ok := strings.Cut(v, ":")
			if !ok || target == "" {
				continue // a volume inside the container
			}
			if _, named := c.Volumes[source]; named {
				continue
			}
			if _, err := os.Stat(source); err != nil {
				t.Errorf("%s: %s: %v", name, serviceName, err)
			}
		}
		for _, secret := range s.Secrets {
			expect.Same(t, "./secrets/"+secret, c.Secrets[secret].File, name, ": the secret ", secret)
		}
		if s.Build.Dockerfile != "" {
			text := string(read(t, filepath.Join(s.Build.Context, s.Build.Dockerfile)))
			if s.Build.Target != "" && !strings.Contains(text, " AS "+s.Build.Target+"\n") {
				t.Errorf("%s: %s: %s has no target %s", name, serviceName, s.Build.Dockerfile, s.Build.Target)
			}
		}
	}
}

// The references of a compose file exist.
func TestCompose(t *testing.T) {
	for _, name := range []string{"compose.yaml", "compose.secure.yaml", "compose.prometheus.yaml"} {
		c := compose(t, name)
		c.check(t, name)
		s := c.Services["hafvf"]
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Error(err)
		}
		if s.Restart != "unless-stopped" || s.StopGracePeriod == "" || len(s.Environment) > 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if len(s.Command) != 4 || !strings.HasSuffix(s.Volumes[0], ":"+s.Command[1]+":ro") {
			t.Fatalf("%s: %+v", name, s)
		}
		// A container's port is reached from outside by its own address, not by loopback.
		if host, port, err := net.SplitHostPort(s.Command[3]); err != nil || host != "0.0.0.0" || !strings.HasSuffix(s.Ports[0], ":"+port) {
			t.Errorf("%s: %+v", name, s)
		}
		// The mounted config names exactly the secrets of the service.
		config, _, _ := strings.Cut(s.Volumes[0], ":")
		text := string(read(t, config))
		for secret := range c.Secrets {
			named := strings.Contains(text, "/run/secrets/"+secret)
			expect.Same(t, slices.Contains(s.Secrets, secret), named, name, " and ", config, " about the secret ", secret)
		}
	}
	c := compose(t, "compose.yaml")
	kafka := c.Services["kafka"]
	if !strings.HasSuffix(kafka.Volumes[0], ":"+kafka.Environment["KAFKA_LOG_DIRS"]) || kafka.Healthcheck == nil {
		t.Errorf("%+v", kafka)
	}
}

func TestDockerfile(t *testing.T) {
	text := string(read(t, "Dockerfile"))
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(read(t, "../go.mod"))
	for _, want := range []string{"FROM golang:" + string(version[1]) + " AS build\n", " ./cmd/hafvf\n", "CGO_ENABLED=0", "\nUSER 65532:65532\n", "\nENV USER="} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}

// An acl is a set of rights of a principal on one resource.
type acl struct {
	kind       kmsg.ACLResourceType
	name       string
	operations []kmsg.ACLOperation
}

// rights returns the rights that the commands in reference.md grant.
func rights(t *testing.T) (acls []acl) {
	t.Helper()
	for line := range strings.Lines(string(read(t, "reference.md"))) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "acls ")
		if !ok {
			continue
		}
		var a acl
		words := strings.Fields(rest)
		for i := 0; i+1 < len(words); i += 2 {
			switch words[i] {
			case "--operation":
				op := expect.Get(kmsg.ParseACLOperation(words[i+1]))(t)
				a.operations = append(a.operations, op)
			case "--topic":
				a.kind, a.name = kmsg.ACLResourceTypeTopic, words[i+1]
			case "--group":
				a.kind, a.name = kmsg.ACLResourceTypeGroup, words[i+1]
			case "--transactional-id":
				a.kind, a.name = kmsg.ACLResourceTypeTransactionalId, words[i+1]
			default:
				t.Fatal(line)
			}
		}
		acls = append(acls, a)
	}
	return acls
}

func grant(t *testing.T, b *kafkatest.Broker, principal string, acls []acl) {
	t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, a := range acls {
		for _, op := range a.operations {
			c := kmsg.NewCreateACLsRequestCreation()
			c.ResourceType, c.ResourceName, c.ResourcePatternType = a.kind, a.name, kmsg.ACLResourcePatternTypeLiteral
			c.Principal, c.Host, c.Operation, c.PermissionType = principal, "*", op, kmsg.ACLPermissionTypeAllow
			req.Creations = append(req.Creations, c)
		}
	}
	b.Do(t, "rights cannot be given", func(ctx context.Context, cl *kgo.Client) error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, r := range resp.Results {
			if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
				return err
			}
		}
		return nil
	})
}

// observe produces n records of three keys.
func observe(t *testing.T, b *kafkatest.Broker, first, n int) {
	t.Helper()
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	records := make([]*kgo.Record, n)
	for i := range records {
		key := fmt.Sprintf("k%d", i%3)
		records[i] = &kgo.Record{Topic: "observations", Key: []byte(key), Value: fmt.Appendf(nil,
			`{"key":%q,"time":%q,"x":%d}`, key, begin.Add(time.Duration(first+i)*time.Second).Format(time.RFC3339), i%7)}
	}
	b.Produce(t, records...)
}

func stored(t *testing.T, b *kafkatest.Broker, topic string) (n int64) {
	t.Helper()
	_, end := b.Offsets(t, topic)
	for _, e := range end {
		n += e
	}
	return n
}

// launch runs an example until stop is called.
func launch(t *testing.T, g *pipeline.Graph, metrics *pipeline.Metrics) (stop func()) {
	t.Helper()
	stopped, done := make(chan struct{}), make(chan error, 1)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	go func() {
		_, err := pipeline.Run{Graph: g, Log: log, Metrics: metrics}.Execute(context.Background(), stopped)
		done <- err
	}()
	return func() {
		t.Helper()
		select { // an error ends the test at once
		case err := <-done:
			t.Fatal("the run has ended: ", err)
		default:
		}
		close(stopped)
		select {
		case err := <-done:
			expect.OK(t, err)
		case <-time.After(time.Minute):
			t.Fatal("the run does not stop")
		}
	}
}

func await(t *testing.T, b *kafkatest.Broker, topic string, n int64) {
	t.Helper()
	expect.Soon(t, fmt.Sprintf("%s has %d records", topic, n), func() bool {
		return exists(t, b, topic) && stored(t, b, topic) == n
	})
}

func exists(t *testing.T, b *kafkatest.Broker, topic string) (ok bool) {
	t.Helper()
	b.Do(t, "metadata", func(ctx context.Context, cl *kgo.Client) error {
		resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			ok = ok || *t.Topic == topic
		}
		return nil
	})
	return ok
}

const anonymous = "User:ANONYMOUS" // the tests' own client

var authorizer = map[string]string{
	"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
	"super.users":           anonymous,
}

// TestScram runs an example twice against a broker that checks rights. The program has only the rights from
// reference.md, and its second run resumes.
func TestScram(t *testing.T) {
	const password = "correct horse battery staple"
	b := kafkatest.Start(t, kafkatest.Config{TLS: true, SASL: "SCRAM-SHA-512", User: "hafvf", Password: password, Properties: authorizer})
	b.CreateTopic(t, "observations", 4, nil)
	secret := filepath.Join(t.TempDir(), "password")
	expect.OK(t, os.WriteFile(secret, []byte(password+"\n"), 0o600))
	g := graph(t, "scram-sha-512.yaml", "source.kafka.brokers=[\""+b.Addr()+"\"]",
		"source.kafka.tls.ca="+b.Certificates.CA, "source.kafka.sasl.password.file="+secret,
		"alerts=[{kafka: {topic: alerts}}, {webhook: {url: \"http://127.0.0.1:1\"}}]")
	_, err := pipeline.Run{Graph: g}.Execute(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), `user "hafvf" may not see topic "observations"`) {
		t.Fatalf("without rights: %v", err)
	}
	owned := func(a acl) bool { return a.kind == kmsg.ACLResourceTypeTransactionalId }
	acls := rights(t)
	grant(t, b, "User:hafvf", slices.DeleteFunc(slices.Clone(acls), owned))
	_, err = pipeline.Run{Graph: g}.Execute(t.Context(), nil)
	if want := `user "hafvf" may not use the transactional id "hafvf-hafvf-states"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("without the right to own the changelog: %v", err)
	}
	grant(t, b, "User:hafvf", acls)
	metrics := pipeline.NewMetrics()
	for i := range 2 {
		observe(t, b, 300*i, 300)
		stop := launch(t, g, metrics)
		await(t, b, "estimates", int64(300*(i+1)))
		if i == 1 {
			asked(t, metrics)
		}
		stop()
	}
	if stored(t, b, "rejected") != 0 || stored(t, b, "hafvf-states") == 0 {
		t.Errorf("%d rejected, %d states", stored(t, b, "rejected"), stored(t, b, "hafvf-states"))
	}
}

// asked checks that the metrics in rules and dashboard exist: for the program, those of a run and of its process;
// for Flink, those listed in testdata.
func asked(t *testing.T, m *pipeline.Metrics) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families := expect.Get(registry.Gather())(t)
	knownMetrics := map[string]bool{}
	for _, f := range families {
		knownMetrics[f.GetName()] = true
		if f.GetType() == dto.MetricType_HISTOGRAM {
			knownMetrics[f.GetName()+"_bucket"] = true
		}
		if strings.HasPrefix(f.GetName(), "hafvf_") && !strings.Contains(string(read(t, "reference.md")), "`"+f.GetName()+"`") {
			t.Errorf("reference.md does not explain %s", f.GetName())
		}
	}
	for name := range strings.Lines(string(read(t, "testdata/flink-metrics.txt"))) {
		knownMetrics[strings.TrimSpace(name)] = true
	}
	name := regexp.MustCompile(`\b(?:hafvf|flink|process)_\w+`)
	for place, expr := range expressions(t) {
		// A name in quotes is not a metric.
		expr = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, "")
		names := name.FindAllString(expr, -1)
		if len(names) == 0 && !strings.HasPrefix(expr, "up{") {
			t.Errorf("%s queries nothing: %s", place, expr)
		}
		for _, name := range names {
			if !knownMetrics[name] {
				t.Errorf("%s queries %s, which does not exist", place, name)
			}
		}
	}
}

// expressions returns the expressions of the rules and the dashboard.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	exprs := rules(t)
	maps.Copy(exprs, panels(t, "dashboard.json"))
	return exprs
}

// rules returns the expressions of the rules.
func rules(t *testing.T) map[string]string {
	t.Helper()
	exprs := map[string]string{}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For string
				Annotations      struct{ Summary string }
			}
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(read(t, "alerts.yaml")))
	decoder.KnownFields(true)
	expect.OK(t, decoder.Decode(&rules))
	for _, g := range rules.Groups {
		if g.Name == "" || len(g.Rules) == 0 {
			t.Errorf("a group of rules is empty: %+v", g)
		}
		for _, r := range g.Rules {
			if exprs[r.Alert] != "" || r.Alert == "" || r.Annotations.Summary == "" {
				t.Errorf("duplicate rule, or rule without a name or a summary: %+v", r)
			}
			exprs[r.Alert] = r.Expr
		}
	}
	return exprs
}

// panels returns the expressions of a dashboard.
func panels(t *testing.T, file string) map[string]string {
	t.Helper()
	exprs := map[string]string{}
	var board struct {
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name string }
		}
	}
	expect.OK(t, json.Unmarshal(read(t, file), &board))
	var variables []string
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name)
	}
	seen := map[int]bool{}
	for _, p := range board.Panels {
		if seen[p.ID] || p.Title == "" || (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("%+v", p)
		}
		seen[p.ID] = true
		for i, target := range p.Targets {
			exprs[fmt.Sprintf("the panel %s, query %d,", p.Title, i)] = target.Expr
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if v[1] != "__rate_interval" && v[1] != "__range" && !slices.Contains(variables, v[1]) {
					t.Errorf("the panel %s has a variable %s, and the dashboard %v", p.Title, v[1], variables)
				}
			}
		}
	}
	return exprs
}
