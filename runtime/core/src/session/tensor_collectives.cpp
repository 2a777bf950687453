#include "tensor_collectives.hpp"

#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cohort/host/error.hpp>

#include "../tensor_bridge/tensor_bridge.hpp"

namespace cohort {
namespace {

cohort_op_args op_args(const at::Tensor& input, at::Tensor& output) {
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.dtype = abi_dtype(input.scalar_type());
  if (args.dtype == 0) {
    throw UserError(std::string("a tensor of type ") + c10::toString(input.scalar_type()) +
                    " cannot be reduced or gathered over ranks; convert it to a real type, e.g. with view_as_real");
  }
  const host::Device device = abi_device(output, "a tensor of a collective");
  args.input = input.data_ptr();
  args.output = output.data_ptr();
  args.count = static_cast<uint64_t>(input.numel());
  args.stream.device_type = device.type;
  args.stream.device_index = device.index;
  return args;
}

// d(loss)/d(own tensor) is the sum, over the ranks, of what flows into the own slice on each of them.
struct AllGather : torch::autograd::Function<AllGather> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& tensor, int64_t rank_address) {
    auto& rank = *reinterpret_cast<host::ConnectedRank*>(rank_address);
    context->saved_data["rank"] = rank_address;
    const at::Tensor input = tensor.clone(at::MemoryFormat::Contiguous);
    std::vector<int64_t> shape{rank.topology().world_size};
    shape.insert(shape.end(), input.sizes().begin(), input.sizes().end());
    at::Tensor gathered = at::empty(shape, input.options());
    if (rank.topology().world_size == 1 || input.numel() == 0) {
      gathered.copy_(input.unsqueeze(0));
    } else {
      rank.user_all_gather(op_args(input, gathered));
    }
    return gathered;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    auto& rank = *reinterpret_cast<host::ConnectedRank*>(context->saved_data["rank"].toInt());
    const at::Tensor sum = all_reduce(rank, gradients[0], COHORT_REDUCE_SUM);
    return {sum.select(0, rank.topology().rank), at::Tensor()};
  }
};

}  // namespace

at::Tensor all_reduce(host::ConnectedRank& rank, const at::Tensor& tensor, int32_t operation) {
  at::Tensor result = tensor.detach().contiguous().clone();
  if (rank.topology().world_size == 1 || result.numel() == 0) return result;
  cohort_op_args args = op_args(result, result);
  args.reduce = operation;
  rank.user_all_reduce(args);
  return result;
}

at::Tensor all_gather(host::ConnectedRank& rank, const at::Tensor& tensor) {
  return AllGather::apply(tensor, reinterpret_cast<int64_t>(&rank));
}

}  // namespace cohort
