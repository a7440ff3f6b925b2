// A client on the official Go SDK, which speaks both eras.
//
//	client --url URL --mode legacy|auto [--call NAME=JSON]...
//
// In place of an address, `stdio:` and a JSON array of words is a program to start.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The revision to begin with: the newest one of the era, or whatever the SDK prefers.
var modes = map[string]string{"legacy": "2025-11-25", "auto": ""}

type call struct {
	name      string
	arguments map[string]any
}

type outcome struct {
	Name    string `json:"name"`
	IsError bool   `json:"isError"`
	Text    string `json:"text"`
}

type summary struct {
	ProtocolVersion string    `json:"protocolVersion,omitempty"`
	Tools           []string  `json:"tools"`
	Calls           []outcome `json:"calls"`
	Error           string    `json:"error,omitempty"`
}

func main() {
	var calls []call
	url := flag.String("url", "", "the endpoint")
	mode := flag.String("mode", "auto", "legacy or auto")
	flag.Func("call", "NAME=JSON, a call to make", func(text string) error {
		name, given, _ := strings.Cut(text, "=")
		var arguments map[string]any
		err := json.Unmarshal([]byte(given), &arguments)
		calls = append(calls, call{name, arguments})
		return err
	})
	flag.Parse()
	version, known := modes[*mode]
	if *url == "" || !known {
		flag.Usage()
		os.Exit(2)
	}

	seen, err := visit(context.Background(), *url, version, calls)
	if err != nil {
		seen.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil || seen.Error != "" {
		os.Exit(1)
	}
}

// visit connects, lists all tools, makes the calls one after the other, and leaves.
func visit(ctx context.Context, url, version string, calls []call) (seen summary, err error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1.0.0"}, nil)
	transport, err := transportTo(url)
	if err != nil {
		return seen, err
	}
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return seen, fmt.Errorf("connecting: %w", err)
	}
	seen.ProtocolVersion = session.InitializeResult().ProtocolVersion
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return seen, fmt.Errorf("listing: %w", err)
		}
		seen.Tools = append(seen.Tools, tool.Name)
	}
	for _, call := range calls {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: call.name, Arguments: call.arguments})
		if err != nil {
			return seen, fmt.Errorf("calling %s: %w", call.name, err)
		}
		seen.Calls = append(seen.Calls, outcome{call.name, result.IsError, textOf(result)})
	}
	return seen, session.Close()
}

// transportTo reaches the endpoint, or the program, that url names.
func transportTo(url string) (mcp.Transport, error) {
	words, isProgram := strings.CutPrefix(url, "stdio:")
	if !isProgram {
		return &mcp.StreamableClientTransport{Endpoint: url}, nil
	}
	var command []string
	if err := json.Unmarshal([]byte(words), &command); err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	if len(command) == 0 {
		return nil, fmt.Errorf("reading the program: it has no words")
	}
	program := exec.Command(command[0], command[1:]...)
	program.Stderr = os.Stderr
	return &mcp.CommandTransport{Command: program}, nil
}

func textOf(result *mcp.CallToolResult) string {
	var text strings.Builder
	for _, content := range result.Content {
		if block, ok := content.(*mcp.TextContent); ok {
			text.WriteString(block.Text)
		}
	}
	return text.String()
}
