package config

import (
	"slices"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/settings"
)

// Every key is listed once, with its type and a sentence.
func TestKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Keys() {
		if k.Takes == "" || !strings.HasSuffix(k.Doc, ".") || seen[k.Path] {
			t.Errorf("%q: %+v", k.Path, k)
		}
		seen[k.Path] = true
	}
	for _, path := range []string{"transform", "model.family", "levels[].alpha", "bank[].levels[].beta", "detect.commit", "keys[].model.prior",
		"source.csv.delimiter", "source.kafka.start.time", "source.kafka.sasl.password.env", "dead_letter.jsonl.path", "runner.name"} {
		if !seen[path] {
			t.Errorf("%s is missing", path)
		}
	}
	for _, k := range settings.Keys() {
		if !slices.Contains(Keys(), k) {
			t.Errorf("%s of the settings is missing", k.Path)
		}
	}
}

// The default in the reference is the value of a config without the key.
func TestDefaults(t *testing.T) {
	const text = "model: {family: normal}\nbank: [{levels: [], top: 1}]\nsource: {csv: {path: a}}\n"
	want := parse(t, text)
	tried := 0
	for _, k := range Keys() {
		switch top, _, _ := strings.Cut(k.Path, "."); {
		case k.Default == "" || strings.Contains(k.Path, "[]") || strings.HasPrefix(k.Path, "detect."):
			continue
		case top == "session" || top == "change" || top == "levels" || top == "top" || top == "runner" || k.Path == "model.warm_up":
			continue // not with this config; TestParseSmooth, TestParseFlink and others test them
		case strings.HasPrefix(k.Path, "source.") && !strings.HasPrefix(k.Path, "source.csv."), strings.Count(k.Path, ".") > 0 && top != "source":
			continue // of another connector
		}
		tried++
		expect.Same(t, want, parse(t, text, k.Path+"="+k.Default), k.Path)
	}
	if tried < 10 {
		t.Errorf("only %d keys were tried", tried)
	}
}
