package process

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
)

// Identity is a user of the container.
type Identity struct {
	UID, GID uint32
	// Groups are all of the user's groups, the primary one included.
	Groups []uint32
	Home   string
	// own is set where this is who sandboxd runs as already.
	own bool
}

// A container's account files are small; what an agent made of them may not be.
const maxAccountFile = 4 << 20

// LookupUser resolves "", "name", "uid", and either with ":group", by the
// container's /etc/passwd and /etc/group, as `docker exec --user` does.
func LookupUser(spec string) (*Identity, error) {
	return lookupUser(spec, "/etc/passwd", "/etc/group", uint32(os.Geteuid()), uint32(os.Getegid()))
}

func lookupUser(spec, passwdPath, groupPath string, ownUID, ownGID uint32) (*Identity, error) {
	asked := spec
	if asked == "" {
		asked = strconv.FormatUint(uint64(ownUID), 10)
	}
	userPart, groupPart, hasGroup := strings.Cut(asked, ":")
	account, err := findAccount(userPart, passwdPath)
	if err != nil {
		return nil, err
	}
	identity := &Identity{UID: account.uid, GID: account.gid, Home: account.home}
	if spec == "" {
		identity.GID = ownGID
	}
	if hasGroup {
		if identity.GID, err = findGroup(groupPart, groupPath); err != nil {
			return nil, err
		}
	} else if identity.Groups, err = groupsOf(account.name, groupPath); err != nil {
		return nil, err
	}
	identity.Groups = append([]uint32{identity.GID}, identity.Groups...)
	identity.own = identity.UID == ownUID && identity.GID == ownGID
	if !identity.own && ownUID != 0 {
		return nil, refuse("user: sandboxd runs as uid %d here and cannot run a command as %q", ownUID, spec)
	}
	return identity, nil
}

type account struct {
	name     string
	uid, gid uint32
	home     string
}

func findAccount(asked, passwdPath string) (*account, error) {
	number, numberErr := strconv.ParseUint(asked, 10, 31)
	var byNumber *account
	var byName *account
	err := eachRecord(passwdPath, 7, func(fields []string) {
		uid, err1 := strconv.ParseUint(fields[2], 10, 32)
		gid, err2 := strconv.ParseUint(fields[3], 10, 32)
		if err1 != nil || err2 != nil {
			return
		}
		found := &account{name: fields[0], uid: uint32(uid), gid: uint32(gid), home: fields[5]}
		if byName == nil && found.name == asked {
			byName = found
		}
		if byNumber == nil && numberErr == nil && uid == number {
			byNumber = found
		}
	})
	switch {
	case err != nil:
		return nil, err
	case byName != nil:
		return byName.withHome(), nil
	case byNumber != nil:
		return byNumber.withHome(), nil
	case asked == "root":
		return &account{name: "root", home: "/root"}, nil
	case numberErr == nil:
		// Images without accounts name their user by number.
		return &account{uid: uint32(number), home: "/"}, nil
	}
	return nil, refuse("user: %q is neither in this container's /etc/passwd nor a number", asked)
}

func (a *account) withHome() *account {
	if a.home == "" {
		a.home = "/"
	}
	return a
}

func findGroup(asked, groupPath string) (uint32, error) {
	number, numberErr := strconv.ParseUint(asked, 10, 31)
	found, gid := false, uint64(0)
	err := eachRecord(groupPath, 4, func(fields []string) {
		if value, err := strconv.ParseUint(fields[2], 10, 32); err == nil && !found && fields[0] == asked {
			found, gid = true, value
		}
	})
	switch {
	case err != nil:
		return 0, err
	case found:
		return uint32(gid), nil
	case numberErr == nil:
		return uint32(number), nil
	}
	return 0, refuse("user: group %q is neither in this container's /etc/group nor a number", asked)
}

func groupsOf(user, groupPath string) ([]uint32, error) {
	if user == "" {
		return nil, nil
	}
	var groups []uint32
	err := eachRecord(groupPath, 4, func(fields []string) {
		for _, member := range strings.Split(fields[3], ",") {
			if gid, err := strconv.ParseUint(fields[2], 10, 32); err == nil && member == user && len(groups) < 1024 {
				groups = append(groups, uint32(gid))
			}
		}
	})
	return groups, err
}

// eachRecord calls handle for every line with that number of fields. A missing
// file has no records.
func eachRecord(path string, fields int, handle func([]string)) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return refuse("user: %v", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, maxAccountFile))
	lines.Buffer(nil, maxAccountFile+1)
	for lines.Scan() {
		if record := strings.Split(lines.Text(), ":"); len(record) == fields {
			handle(record)
		}
	}
	if err := lines.Err(); err != nil {
		return refuse("user: reading %s: %v", path, err)
	}
	return nil
}
