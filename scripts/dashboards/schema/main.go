// Command schema reads Grafana dashboards by the types that Grafana generates from its own schemas. An unknown panel
// type, a field or option that a type does not have, and a value of another type are errors.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	status := 0
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			status = 1
		}
	}
	os.Exit(status)
}

func check(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := readStrictly(content); err != nil {
		return err
	}
	var found dashboard.Dashboard
	if err := json.Unmarshal(content, &found); err != nil {
		return err
	}
	if err := found.Validate(); err != nil {
		return err
	}
	for _, one := range found.Panels {
		if one.Panel != nil {
			if _, unknown := one.Panel.Options.(map[string]any); unknown {
				return fmt.Errorf("there is no panel type %q", one.Panel.Type)
			}
		}
	}
	return nothingLost(content, found)
}

// readStrictly names the fields that are unknown. The SDK (0.0.22) returns an empty list for none.
func readStrictly(content []byte) error {
	err := new(dashboard.Dashboard).UnmarshalJSONStrict(content)
	var faults cog.BuildErrors
	if errors.As(err, &faults) && len(faults) == 0 {
		return nil
	}
	return err
}

// nothingLost tells of what the types do not keep: the strict reading leaves queries out.
func nothingLost(content []byte, found dashboard.Dashboard) error {
	written, err := json.Marshal(found)
	if err != nil {
		return err
	}
	var before, after any
	if err := errors.Join(json.Unmarshal(content, &before), json.Unmarshal(written, &after)); err != nil {
		return err
	}
	return missing("", before, after)
}

func missing(place string, before, after any) error {
	switch had := before.(type) {
	case map[string]any:
		has, _ := after.(map[string]any)
		for name, value := range had {
			if err := missing(place+"."+name, value, has[name]); err != nil {
				return err
			}
		}
	case []any:
		has, _ := after.([]any)
		for number, value := range had {
			if number >= len(has) {
				return fmt.Errorf("%s[%d] is not in the schema", place, number)
			}
			if err := missing(fmt.Sprintf("%s[%d]", place, number), value, has[number]); err != nil {
				return err
			}
		}
	default:
		if before != nil && !reflect.DeepEqual(before, after) {
			return fmt.Errorf("%s is not in the schema", place)
		}
	}
	return nil
}
