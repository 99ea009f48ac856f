package hafvf_test

import (
	"testing"

	"hafvf/hafvf"
)

// Other programs are compiled against these signatures.
var (
	_ func(string, hafvf.Params, int) (hafvf.Model, error)                  = hafvf.New
	_ func(hafvf.Model, []hafvf.Beta, float64) *hafvf.Filter                = hafvf.NewFilter
	_ func(hafvf.Model, []hafvf.Member, float64, *hafvf.Detect) *hafvf.Bank = hafvf.NewBank
	_ func() []hafvf.Member                                                 = hafvf.DefaultBank
	_ func(*hafvf.Bank) hafvf.State                                         = (*hafvf.Bank).NewState
	_ func(*hafvf.Bank) int                                                 = (*hafvf.Bank).Dim
	_ func(*hafvf.Bank, hafvf.State, ...[]float64) hafvf.Outcome            = (*hafvf.Bank).Update
	_ func(*hafvf.Filter) hafvf.State                                       = (*hafvf.Filter).NewState
	_ func(*hafvf.Filter, hafvf.State, ...[]float64) hafvf.Step             = (*hafvf.Filter).Update
	_                                                                       = hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}}, Top: 1}
)

// A filter is made from a family's name, or from a config.
func TestModelByName(t *testing.T) {
	model, err := hafvf.New("mvnormal", nil, 3)
	if err != nil || model.Dim() != 3 {
		t.Fatal(model, err)
	}
	if _, err := hafvf.New("normal", hafvf.Params{"sigma": 1.}, 0); err == nil {
		t.Error("a parameter that there is not")
	}
	f, err := hafvf.Config{Family: "normal"}.Filter()
	if err != nil {
		t.Fatal(err)
	}
	s := f.NewState()
	if step := f.Update(s, []float64{1}); step.Memory != 1 {
		t.Errorf("memory %v", step.Memory)
	}
	bank := hafvf.NewBank(f.Model(), hafvf.DefaultBank(), hafvf.DefaultForgetting, &hafvf.Detect{})
	bank.Update(bank.NewState(), []float64{1})
}
