// Command supervise runs one server for a test process and never lets it outlive that process.
//
//	supervise [--stdout FILE] [--stderr FILE] COMMAND [ARGUMENT...]
//
// The command runs in a process group of its own, without standard input; its output is appended
// to the given files (or discarded). Signals sent to supervise are not passed on: a test runner that
// is interrupted ends, and its end is what ends the command.
//
// Standard input carries orders, one a line, each the name of a signal to send to the command:
// TERM, KILL, INT, HUP, USR1, USR2, STOP, CONT. When standard input ends, however that came about,
// the whole group is killed. That is the point of the program: the kernel closes a pipe even for a
// process that was killed by SIGKILL, whereas a parent-death signal is tied to the thread that
// started the child, and the threads of a test runner end early.
//
// Standard output carries two lines: "started PID" and, when the command has ended,
// "exited CODE PEAK_KIB CPU_MICROS" or "killed SIGNAL PEAK_KIB CPU_MICROS".
// Where it can't be started the one line is "failed WHY".
// The exit status is the command's, 128 and the signal's number for a signal, 125 for a failure of
// supervise's own.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const ownFailure = 125

var orders = map[string]syscall.Signal{
	"TERM": unix.SIGTERM,
	"KILL": unix.SIGKILL,
	"INT":  unix.SIGINT,
	"HUP":  unix.SIGHUP,
	"USR1": unix.SIGUSR1,
	"USR2": unix.SIGUSR2,
	"STOP": unix.SIGSTOP,
	"CONT": unix.SIGCONT,
}

func main() {
	// The kernel delivers the parent-death signal when the *thread* that started the child ends, so
	// the child is started from the main thread, which lives as long as the process.
	runtime.LockOSThread()
	// Catching a signal, unlike ignoring it, is not inherited by the command.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE)

	code, err := run(os.Args[1:], os.Stdin, os.Stdout)
	if err != nil {
		fmt.Println("failed", err)
	}
	os.Exit(code)
}

func run(args []string, in io.Reader, out io.Writer) (int, error) {
	cmd, err := command(args)
	if err != nil {
		return ownFailure, err
	}
	if err := cmd.Start(); err != nil {
		return ownFailure, err
	}
	child := &child{pid: cmd.Process.Pid}
	fmt.Fprintf(out, "started %d\n", child.pid)

	go child.obey(in)
	child.awaitEnd()

	err = cmd.Wait()
	if cmd.ProcessState == nil {
		return ownFailure, err
	}
	return report(cmd.ProcessState, out), nil
}

// command reads the command line.
func command(args []string) (*exec.Cmd, error) {
	files := map[string]string{}
	for len(args) > 1 && (args[0] == "--stdout" || args[0] == "--stderr") {
		files[args[0]] = args[1]
		args = args[2:]
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "--") {
		return nil, fmt.Errorf("usage: supervise [--stdout FILE] [--stderr FILE] COMMAND [ARGUMENT...]")
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	for option, file := range files {
		// Appending keeps lines whole where both streams go to one file, and keeps the log of a
		// server's earlier life.
		log, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		if option == "--stdout" {
			cmd.Stdout = log
		} else {
			cmd.Stderr = log
		}
	}
	return cmd, nil
}

// child is a started command that may be signalled until it has been reaped.
type child struct {
	pid   int
	mu    sync.Mutex
	ended bool
}

// obey sends the signals that are ordered, and kills the group when the orders end.
func (c *child) obey(in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if sig, ok := orders[strings.TrimSpace(lines.Text())]; ok {
			c.signal(c.pid, sig)
		}
	}
	c.signal(-c.pid, unix.SIGKILL)
}

// signal reaches only our own: until the child is reaped, its number can't be anybody else's.
func (c *child) signal(pid int, sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		_ = unix.Kill(pid, sig)
	}
}

// awaitEnd waits until the command has ended but not yet been reaped, and kills what it left
// behind in its group.
func (c *child) awaitEnd() {
	for unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	c.signal(-c.pid, unix.SIGKILL)
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
}

// report says how the command ended, and returns the exit status that passes this on.
func report(state *os.ProcessState, out io.Writer) int {
	peak := int64(0)
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		peak = usage.Maxrss
	}
	cpu := (state.UserTime() + state.SystemTime()).Microseconds()

	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		fmt.Fprintf(out, "killed %d %d %d\n", status.Signal(), peak, cpu)
		return 128 + int(status.Signal())
	}
	fmt.Fprintf(out, "exited %d %d %d\n", state.ExitCode(), peak, cpu)
	return state.ExitCode()
}
