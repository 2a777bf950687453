// Checks and prepares the environment of a process at the start of a program, so that a missing prerequisite is one
// clear message instead of a failure later on.
//
// [main] thread, before any other thread is started.
#pragma once

#include <cstdint>

namespace cohort::host {

/// Prepares this process; a program calls it first. Opens /dev/null for standard streams that are closed, so that no
/// file of the program gets their descriptors, and calls ignore_write_signals(). Throws UserError if the stack is too
/// small or a closed stream cannot be replaced.
void prepare_process();

/// Ignores SIGPIPE and SIGXFSZ, so that write() to a broken pipe, or beyond the limit of file sizes, fails with an
/// error instead of ending the process.
void ignore_write_signals();
/// Restores the default action of these signals, for a child that executes any other program. Safe after a fork.
void restore_write_signals() noexcept;

/// Raises the soft limit of open files to the hard limit, or to `most` if that is less. Does nothing if that fails.
/// Containers often allow 2^30, and programs that close each descriptor that there could be take minutes then.
void raise_open_file_limit(uint64_t most = 65536);

/// Throws UserError if the working folder has been deleted.
void require_working_folder();

/// Throws UserError if several ranks cannot run on this machine: the limit of open files is below 64, or /proc shows
/// the processes of another PID namespace.
void require_room_for_ranks();

/// Returns whether /proc shows the processes of this PID namespace.
bool has_own_proc();

}  // namespace cohort::host
