package registry

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// maxNested is the maximum depth of nested message declarations in a payload's index.
const maxNested = 64

func compileProtobuf(text string, parts []schemaReference) (func(dst, payload []byte) ([]byte, error), error) {
	const root = "the schema" // no import has this name
	files := map[string]protocompile.SearchResult{root: schemaFile(root, text)}
	for _, p := range parts {
		files[p.name] = schemaFile(p.name, p.text)
	}
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(protocompile.ResolverFunc(func(name string) (protocompile.SearchResult, error) {
		if found, ok := files[name]; ok {
			return found, nil
		}
		return protocompile.SearchResult{}, fmt.Errorf("%s is imported, but the schema's references do not contain it", name)
	}))}
	compiled, err := c.Compile(context.Background(), root)
	if err != nil {
		return nil, err
	}
	file := compiled[0]
	return func(dst, payload []byte) ([]byte, error) {
		index, payload, err := header.DecodeIndex(payload, maxNested)
		if err != nil {
			return dst, errors.New("it does not begin with a message index")
		}
		desc, err := messageAt(file, index)
		if err != nil {
			return dst, err
		}
		m := dynamicpb.NewMessage(desc)
		if err := (proto.UnmarshalOptions{DiscardUnknown: true, AllowPartial: true}).Unmarshal(payload, m); err != nil {
			return dst, err
		}
		return appendMessage(dst, m)
	}, nil
}

// schemaFile returns a schema file. text is .proto source or a descriptor in base64, which Confluent's client for
// Python registers.
func schemaFile(name, text string) protocompile.SearchResult {
	var file descriptorpb.FileDescriptorProto
	if b, err := base64.StdEncoding.DecodeString(text); err == nil && len(b) > 0 && proto.Unmarshal(b, &file) == nil {
		file.Name = &name // the name in imports
		nameFields(file.MessageType)
		return protocompile.SearchResult{Proto: &file}
	}
	return protocompile.SearchResult{Source: strings.NewReader(text)}
}

// nameFields adds missing JSON names to fields. The compiler compares these names.
func nameFields(messages []*descriptorpb.DescriptorProto) {
	for _, m := range messages {
		for _, f := range m.Field {
			if f.JsonName == nil {
				f.JsonName = f.Name
			}
		}
		nameFields(m.NestedType)
	}
}

// messageAt returns the message at index, a path of positions in nested declarations.
func messageAt(file protoreflect.FileDescriptor, index []int) (desc protoreflect.MessageDescriptor, err error) {
	scope := file.Messages()
	for _, i := range index {
		if i < 0 || i >= scope.Len() {
			return nil, fmt.Errorf("the schema has no message with index %v", index)
		}
		desc = scope.Get(i)
		scope = desc.Messages()
	}
	if desc == nil {
		return nil, errors.New("the index of the message is empty")
	}
	return desc, nil
}

// appendMessage appends a message as JSON. Members have the field names of the schema. An unset field is null if
// the field has presence, and otherwise its default. Numbers are never quoted; package protojson quotes 64-bit
// integers.
func appendMessage(b []byte, m protoreflect.Message) ([]byte, error) {
	fields := m.Descriptor().Fields()
	switch m.Descriptor().FullName() { // messages with a shorter form in JSON
	case "google.protobuf.Timestamp":
		t := time.Unix(secondsOf(m)).UTC()
		if y := t.Year(); y < 1 || y > 9999 {
			return b, fmt.Errorf("the timestamp of year %d is out of range", y)
		}
		return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"'), nil
	case "google.protobuf.Duration": // in seconds
		seconds, nanos := secondsOf(m)
		if seconds < 0 || nanos < 0 {
			b, seconds, nanos = append(b, '-'), -seconds, -nanos
		}
		if seconds < 0 || nanos < 0 || nanos > 999_999_999 {
			return b, errors.New("a duration mixes signs, or is out of range")
		}
		return fmt.Appendf(b, "%d.%09d", seconds, nanos), nil
	case "google.protobuf.Value":
		f := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
		if f == nil {
			return append(b, "null"...), nil
		}
		return appendField(b, f, m.Get(f))
	case "google.protobuf.Struct", "google.protobuf.ListValue", "google.protobuf.DoubleValue", "google.protobuf.FloatValue",
		"google.protobuf.Int64Value", "google.protobuf.UInt64Value", "google.protobuf.Int32Value", "google.protobuf.UInt32Value",
		"google.protobuf.BoolValue", "google.protobuf.StringValue", "google.protobuf.BytesValue": // their only field
		return appendField(b, fields.Get(0), m.Get(fields.Get(0)))
	}
	return appendAll(b, "{}", fields.Len(), func(b []byte, i int) ([]byte, error) {
		f := fields.Get(i)
		b = appendName(b, string(f.Name()))
		if f.HasPresence() && !m.Has(f) {
			return append(b, "null"...), nil
		}
		return appendField(b, f, m.Get(f))
	})
}

func appendField(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch {
	case f.IsList():
		list := v.List()
		return appendAll(b, "[]", list.Len(), func(b []byte, i int) ([]byte, error) { return appendValue(b, f, list.Get(i)) })
	case f.IsMap():
		return appendMap(b, f, v.Map())
	}
	return appendValue(b, f, v)
}

func appendMap(b []byte, f protoreflect.FieldDescriptor, m protoreflect.Map) ([]byte, error) {
	var keys []protoreflect.MapKey
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return strings.Compare(a.String(), b.String()) })
	return appendAll(b, "{}", len(keys), func(b []byte, i int) ([]byte, error) {
		return appendValue(appendName(b, keys[i].String()), f.MapValue(), m.Get(keys[i]))
	})
}

func appendValue(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return appendMessage(b, v.Message())
	case protoreflect.EnumKind:
		if f.Enum().FullName() == "google.protobuf.NullValue" {
			return append(b, "null"...), nil
		}
		if value := f.Enum().Values().ByNumber(v.Enum()); value != nil {
			return appendText(b, string(value.Name())), nil
		}
		return strconv.AppendInt(b, int64(v.Enum()), 10), nil
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool()), nil
	case protoreflect.StringKind:
		return appendText(b, v.String()), nil
	case protoreflect.BytesKind:
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), v.Bytes()), '"'), nil
	case protoreflect.FloatKind:
		return appendFloat(b, v.Float(), 32), nil
	case protoreflect.DoubleKind:
		return appendFloat(b, v.Float(), 64), nil
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	}
	return strconv.AppendInt(b, v.Int(), 10), nil
}

// secondsOf returns the two fields of a Timestamp or a Duration.
func secondsOf(m protoreflect.Message) (seconds, nanos int64) {
	f := m.Descriptor().Fields()
	return m.Get(f.ByNumber(1)).Int(), m.Get(f.ByNumber(2)).Int()
}
