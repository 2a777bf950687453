// What a process needs of its surroundings: asked at the start of a program, so that what is missing is one sentence.
//
// [main] thread, while no other one runs.
#pragma once

namespace cohort::host {

/// Prepares this process, first of all that a program does. Standard streams that are closed become /dev/null, so that
/// no file of the program gets their numbers; errors of write are no signals. Throws UserError where the stack is too
/// small, or a closed stream cannot be replaced.
void prepare_process();

/// Makes a broken pipe and a file at its largest size errors of write instead of signals that end the process.
void ignore_write_signals();
/// Undoes that in a child that executes a program of any kind. May be called after a fork.
void restore_write_signals() noexcept;

/// Raises the limit of open files to the highest that this user may have.
void raise_open_file_limit();

/// Throws UserError where the working folder has been deleted.
void require_working_folder();

/// Throws UserError where several ranks cannot work together on this machine: too few files can be open, or /proc
/// shows the processes of others.
void require_room_for_ranks();

/// Whether /proc shows the processes of this PID namespace under the numbers that they have here.
bool has_own_proc();

}  // namespace cohort::host
