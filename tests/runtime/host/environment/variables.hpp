// The variables of each launcher's ranks, and what is said where a set of them is refused.
#pragma once

#include <string>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>

namespace cohort::host {

inline Variables cohort_rank() {
  return {{"RANK", "3"},      {"WORLD_SIZE", "4"},          {"LOCAL_RANK", "1"},      {"LOCAL_WORLD_SIZE", "2"},
          {"NODE_RANK", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}, {"COHORT_RUN_ID", "00ff"}};
}

inline Variables torchrun_rank() {
  return {{"RANK", "1"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"GROUP_RANK", "0"},
          {"GROUP_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "node0"},
          {"MASTER_PORT", "29501"},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"TORCHELASTIC_RESTART_COUNT", "2"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

inline Variables mpi_rank(int rank, int size, int local_rank, int local_size) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
          {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(local_rank)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(local_size)},
          {"OMPI_COMM_WORLD_NODE_RANK", std::to_string(local_rank)},
          {"PMIX_NAMESPACE", "3217555457"},
          {"PMIX_SERVER_TMPDIR", "/tmp/ompi.host.0/pid.1"}};
}

inline Variables horovod_rank() {
  return {{"HOROVOD_RANK", "3"},
          {"HOROVOD_SIZE", "4"},
          {"HOROVOD_LOCAL_RANK", "1"},
          {"HOROVOD_LOCAL_SIZE", "2"},
          {"HOROVOD_CROSS_RANK", "1"},
          {"HOROVOD_CROSS_SIZE", "2"},
          {"HOROVOD_HOSTNAME", "node1"},
          {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "node0"},
          {"HOROVOD_GLOO_RENDEZVOUS_PORT", "4000"}};
}

/// As mpiexec of MPICH 4.0 sets them; Intel MPI's has the same.
inline Variables hydra_rank(int rank, int size, int local_rank, int local_size) {
  return {{"PMI_RANK", std::to_string(rank)},
          {"PMI_SIZE", std::to_string(size)},
          {"PMI_FD", "6"},
          {"MPI_LOCALRANKID", std::to_string(local_rank)},
          {"MPI_LOCALNRANKS", std::to_string(local_size)}};
}

/// As jsrun sets them.
inline Variables jsrun_task(int rank, int size, int local_rank, int local_size) {
  return {{"JSM_NAMESPACE_RANK", std::to_string(rank)},
          {"JSM_NAMESPACE_SIZE", std::to_string(size)},
          {"JSM_NAMESPACE_LOCAL_RANK", std::to_string(local_rank)},
          {"JSM_NAMESPACE_LOCAL_SIZE", std::to_string(local_size)},
          {"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
          {"LSB_JOBID", "731"},
          {"LSB_HOSTS", "batch2 h41 h41 h42 h42"}};
}

/// As pbsdsh of Torque sets them, by a record of a job of two hosts. The node file is not among them on the second
/// host.
inline Variables torque_task(int line, int host) {
  return {{"PBS_JOBID", "1672.mgt1.example.org"},
          {"PBS_ENVIRONMENT", "PBS_BATCH"},
          {"PBS_NODENUM", std::to_string(host)},
          {"PBS_VNODENUM", std::to_string(line)},
          {"PBS_TASKNUM", std::to_string(146 + line)}};
}

/// As the training operator sets them in the pods of a PyTorchJob.
inline Variables pod(int rank, int pods) {
  return {{"MASTER_ADDR", "job-master-0"},      {"MASTER_PORT", "23456"},
          {"WORLD_SIZE", std::to_string(pods)}, {"RANK", std::to_string(rank)},
          {"PET_MASTER_ADDR", "job-master-0"},  {"PET_MASTER_PORT", "23456"},
          {"PET_NNODES", std::to_string(pods)}, {"PET_NODE_RANK", std::to_string(rank)},
          {"PET_NPROC_PER_NODE", "auto"}};
}

/// As srun of SLURM 22.05 sets them for a task of a step.
inline Variables srun_task(int rank, int tasks, int local_rank, int node, int nodes) {
  return {{"SLURM_JOB_ID", "1234"},
          {"SLURM_JOB_NAME", "interactive"},
          {"SLURM_NTASKS", std::to_string(tasks)},
          {"SLURM_NNODES", std::to_string(nodes)},
          {"SLURM_STEP_ID", "2"},
          {"SLURM_STEP_NUM_TASKS", std::to_string(tasks)},
          {"SLURM_STEP_NUM_NODES", std::to_string(nodes)},
          {"SLURM_STEP_TASKS_PER_NODE", nodes == 1 ? "2" : "2(x2)"},
          {"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_LOCALID", std::to_string(local_rank)},
          {"SLURM_NODEID", std::to_string(node)}};
}

/// Returns the variables of a batch script. The shell of salloc has all but the last two.
inline Variables batch_script() {
  return {{"SLURM_JOB_ID", "1234"}, {"SLURM_NTASKS", "2"}, {"SLURM_NNODES", "1"}, {"SLURM_TASKS_PER_NODE", "2"},
          {"SLURM_NODEID", "0"},    {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
}

inline Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

inline Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

inline std::string refusal(const Variables& variables) {
  try {
    detect_topology(variables);
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace cohort::host
