package experiment

import "hafvf/cmd/hafvf/chart"

func (o *sgdOutcome) figure() *chart.Figure { return &chart.Figure{} }
