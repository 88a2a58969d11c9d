// Package process runs commands, one supervisor process each, and ends them
// with everything they started.
package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Spec is a command as the runner asks for it.
type Spec struct {
	// Args is the argument vector; empty when Script is set.
	Args []string
	// Script is run by bash, or by sh where there is no bash.
	Script string
	// Env is added to the container's own environment.
	Env map[string]string
	// Cwd is absolute; empty means the container's working directory.
	Cwd string
	// User is a name or number, optionally ":group"; empty means our own.
	User string
	// Timeout is zero for none.
	Timeout time.Duration
	// ID names the call for Signal; may be empty.
	ID string
}

// RequestError is a command that can never start in this container.
type RequestError struct{ Reason string }

func (e *RequestError) Error() string { return e.Reason }

func refuse(format string, a ...any) error {
	return &RequestError{Reason: fmt.Sprintf(format, a...)}
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// resolved is a command ready for a supervisor. Byte strings, because the
// container's environment need not be UTF-8 and JSON would change it.
type resolved struct {
	Program []byte
	Args    [][]byte
	Env     [][]byte
	Cwd     []byte
	// SwitchUser is false where the command runs as sandboxd itself does.
	SwitchUser bool
	UID, GID   uint32
	Groups     []uint32
}

func resolve(spec *Spec, containerEnv []string) (*resolved, error) {
	identity, err := LookupUser(spec.User)
	if err != nil {
		return nil, err
	}
	env, err := mergeEnv(containerEnv, spec.Env, identity)
	if err != nil {
		return nil, err
	}
	args, err := arguments(spec, env)
	if err != nil {
		return nil, err
	}
	if err := checkCwd(spec.Cwd); err != nil {
		return nil, err
	}
	program, err := lookProgram(args[0], spec.Cwd, env["PATH"])
	if err != nil {
		return nil, err
	}
	r := &resolved{Program: []byte(program), Cwd: []byte(spec.Cwd), Args: bytesOf(args)}
	for name, value := range env {
		r.Env = append(r.Env, []byte(name+"="+value))
	}
	if !identity.own {
		r.SwitchUser, r.UID, r.GID, r.Groups = true, identity.UID, identity.GID, identity.Groups
	}
	return r, nil
}

func mergeEnv(container []string, added map[string]string, identity *Identity) (map[string]string, error) {
	env := map[string]string{"PATH": defaultPath}
	for _, entry := range container {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	if env["HOME"] == "" || !identity.own {
		env["HOME"] = identity.Home
	}
	for name, value := range added {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return nil, refuse("env: %q is not a variable name, or its value has a NUL byte", name)
		}
		env[name] = value
	}
	return env, nil
}

func arguments(spec *Spec, env map[string]string) ([]string, error) {
	args := spec.Args
	if len(args) == 0 {
		shell, err := findShell(env["PATH"])
		if err != nil {
			return nil, err
		}
		args = []string{shell, "-c", spec.Script}
	}
	for _, arg := range args {
		if strings.Contains(arg, "\x00") {
			return nil, refuse("command: an argument has a NUL byte")
		}
		// MAX_ARG_STRLEN: the kernel would answer with a bare E2BIG.
		if len(arg) >= 32*os.Getpagesize() {
			return nil, refuse("command: an argument has %d bytes, the kernel takes fewer than %d; upload it as a file instead",
				len(arg), 32*os.Getpagesize())
		}
	}
	return args, nil
}

func findShell(path string) (string, error) {
	for _, candidate := range []string{"/bin/bash", "/usr/bin/bash", "bash", "/bin/sh", "sh"} {
		if program, err := lookProgram(candidate, "/", path); err == nil {
			return program, nil
		}
	}
	return "", refuse("command: this container has neither bash nor sh; only an argument vector can be run in it")
}

func checkCwd(cwd string) error {
	if cwd == "" {
		return nil
	}
	if !filepath.IsAbs(cwd) {
		return refuse("cwd: %q is not absolute", cwd)
	}
	info, err := os.Stat(cwd)
	if errors.Is(err, os.ErrNotExist) {
		return refuse("cwd: %s does not exist in this container", cwd)
	}
	if err != nil {
		return refuse("cwd: %v", err)
	}
	if !info.IsDir() {
		return refuse("cwd: %s is not a directory", cwd)
	}
	return nil
}

func lookProgram(name, cwd, path string) (string, error) {
	if name == "" {
		return "", refuse("command: the program's name is empty")
	}
	if strings.Contains(name, "/") {
		full := name
		if !filepath.IsAbs(full) {
			full = filepath.Join(cwd, name)
		}
		if err := executable(full); err != nil {
			return "", refuse("command: %v", err)
		}
		return name, nil
	}
	for _, folder := range filepath.SplitList(path) {
		if candidate := filepath.Join(folder, name); filepath.IsAbs(candidate) && executable(candidate) == nil {
			return candidate, nil
		}
	}
	return "", refuse("command: no program %s in PATH (%s)", name, path)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return &os.PathError{Op: "run", Path: path, Err: unix.EACCES}
	}
	return nil
}

func bytesOf(texts []string) [][]byte {
	out := make([][]byte, len(texts))
	for i, text := range texts {
		out[i] = []byte(text)
	}
	return out
}
