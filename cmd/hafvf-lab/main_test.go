package main

import (
	"testing"

	"hafvf/internal/testing/e2e"
)

var program e2e.Program

func TestMain(m *testing.M) { e2e.Self(m, &program, main) }
