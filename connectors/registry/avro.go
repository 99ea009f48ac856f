package registry

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/avro"
)

// A localTime is a time without a time zone.
type localTime time.Time

// avroOptions decode logical types that are not distinct as time.Time: local timestamps and dates.
var avroOptions = func() (opts []avro.SchemaOpt) {
	add := func(name, kind string, unit func(int64) time.Time) {
		opts = append(opts, avro.CustomType{LogicalType: name, AvroType: kind, Decode: func(v any, _ *avro.SchemaNode) (any, error) {
			switch n := v.(type) {
			case int64:
				return localTime(unit(n)), nil
			case int32:
				return localTime(unit(int64(n))), nil
			}
			return nil, avro.ErrSkipCustomType
		}})
	}
	add("local-timestamp-millis", "long", time.UnixMilli)
	add("local-timestamp-micros", "long", time.UnixMicro)
	add("local-timestamp-nanos", "long", func(ns int64) time.Time { return time.Unix(0, ns) })
	add("date", "int", func(days int64) time.Time { return time.Unix(days*24*60*60, 0) })
	return append(opts, avro.WithLaxNames(nil)) // other libraries allow more names
}()

func compileAvro(text string, parts []schemaReference) (func(dst, payload []byte) ([]byte, error), error) {
	var types avro.SchemaCache
	for _, p := range parts { // some parts may be the same
		if _, err := types.Parse(p.text, avroOptions...); err != nil {
			return nil, fmt.Errorf("its part %s: %w", p.name, err)
		}
	}
	s, err := types.Parse(text, avroOptions...)
	if err != nil {
		return nil, err
	}
	return func(dst, payload []byte) ([]byte, error) {
		var v any
		rest, err := s.Decode(payload, &v, avro.AliasInput())
		switch semantic := (*avro.SemanticError)(nil); {
		case errors.As(err, new(*avro.ShortBufferError)):
			return dst, errors.New("it ends too early")
		case errors.As(err, &semantic) && semantic.Err != nil: // err mentions Go's types
			return dst, semantic.Err
		case err != nil:
			return dst, err
		case len(rest) > 0:
			return dst, fmt.Errorf("%d bytes follow the record", len(rest))
		}
		return appendAvro(dst, v)
	}, nil
}

// appendAvro appends a decoded value as JSON.
func appendAvro(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case map[string]any:
		var buf [16]string
		names := slices.AppendSeq(buf[:0], maps.Keys(v))
		slices.Sort(names)
		return appendAll(b, "{}", len(names), func(b []byte, i int) ([]byte, error) {
			return appendAvro(appendName(b, names[i]), v[names[i]])
		})
	case []any:
		return appendAll(b, "[]", len(v), func(b []byte, i int) ([]byte, error) { return appendAvro(b, v[i]) })
	case bool:
		return strconv.AppendBool(b, v), nil
	case int32:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case float32:
		return appendFloat(b, float64(v), 32), nil
	case float64:
		return appendFloat(b, v, 64), nil
	case string:
		return appendText(b, v), nil
	case []byte:
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), v), '"'), nil
	case time.Time:
		return append(v.UTC().AppendFormat(append(b, '"'), time.RFC3339Nano), '"'), nil
	case localTime:
		return append(time.Time(v).UTC().AppendFormat(append(b, '"'), "2006-01-02T15:04:05.999999999"), '"'), nil
	case time.Duration: // time of the day
		return append(time.Unix(0, int64(v)).UTC().AppendFormat(append(b, '"'), "15:04:05.999999999"), '"'), nil
	case *big.Rat:
		digits, exact := v.FloatPrec()
		if !exact {
			return b, fmt.Errorf("the decimal %s has no finite representation", v)
		}
		return append(b, v.FloatString(digits)...), nil
	case [16]byte: // a UUID
		text := hex.EncodeToString(v[:])
		return appendText(b, text[:8]+"-"+text[8:12]+"-"+text[12:16]+"-"+text[16:20]+"-"+text[20:]), nil
	case avro.Duration:
		return appendText(b, v.String()), nil
	}
	return b, fmt.Errorf("a value of type %T is not supported", v)
}
