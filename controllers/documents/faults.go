package documents

import (
	"fmt"
	"strings"

	"go.uber.org/zap"

	"gateway/resources"
)

// maxLoggedFaults bounds a line of the log: the status of the file has all of its faults.
const maxLoggedFaults = 5

// logFaults says once what of a file is not in force, and once that all of it is again.
func logFaults(logger *zap.Logger, path string, last *resources.ApplyResult, now *resources.ApplyResultSpec) {
	var before []string
	if last != nil {
		before = faultsOf(last.TypedSpec())
	}

	faults := faultsOf(now)

	switch was, is := shortened(before), shortened(faults); {
	case is == was:
	case is == "":
		logger.Info("all of a file is in force again", zap.String("file", path))
	default:
		logger.Warn("not all of a file is in force", zap.String("file", path), zap.String("reason", is))
	}
}

// faultsOf are what is wrong with the documents of a file, one by one.
func faultsOf(result *resources.ApplyResultSpec) []string {
	if result.Error != "" {
		return strings.Split(result.Error, "\n")
	}

	var faults []string

	for _, o := range result.Objects {
		if o.Outcome == resources.OutcomeRefused || o.Outcome == resources.OutcomeConflict {
			faults = append(faults, o.Kind+"/"+o.Name+": "+o.Message)
		}
	}

	return faults
}

// shortened is the first of the faults, with the number of the others.
func shortened(faults []string) string {
	shown := strings.Join(faults[:min(len(faults), maxLoggedFaults)], "; ")
	if more := len(faults) - maxLoggedFaults; more > 0 {
		return fmt.Sprintf("%s; and %d more", shown, more)
	}

	return shown
}
