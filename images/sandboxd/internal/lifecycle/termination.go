package lifecycle

import (
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// OnTermination calls end shortly before the grace period that a SIGTERM
// begins is over. Until then SIGTERM means nothing: the runner still has to
// fetch what the agent made, and it is the runner who ends the container.
func OnTermination(grace, margin time.Duration, end func(code int, reason string)) {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, unix.SIGTERM)
	go func() {
		<-terminated
		signal.Stop(terminated)
		time.Sleep(max(grace-margin, 0))
		end(ExitTerminated, fmt.Sprintf("SIGTERM came and the grace period of %v is almost over", grace))
	}()
}
