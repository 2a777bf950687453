#include "models/model.hpp"

#include <array>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/sgd.h>

namespace numerics {
namespace {

struct Known {
  const char* name;
  std::shared_ptr<cohort::Module> (*make)(const OptimizerChoice&);
  OptimizerChoice choice;
};

}  // namespace

cohort::Optimizers make_optimizer(const OptimizerChoice& choice, const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> trained;
  for (const auto& parameter : parameters) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  using namespace torch::optim;
  if (choice.kind == "sgd") return SGD(trained, SGDOptions(choice.lr));
  if (choice.kind == "sgd_momentum") return SGD(trained, SGDOptions(choice.lr).momentum(0.9));
  if (choice.kind == "adam") return Adam(trained, AdamOptions(choice.lr));
  if (choice.kind == "adamw") return AdamW(trained, AdamWOptions(choice.lr).weight_decay(0.01));
  if (choice.kind == "lbfgs") return LBFGS(trained, LBFGSOptions(choice.lr));
  throw cohort::UserError("--optimizer=" + choice.kind + " is unknown; choose sgd, sgd_momentum, adam, adamw or lbfgs");
}

std::shared_ptr<cohort::Module> make_model(const std::string& name, OptimizerChoice choice) {
  const std::array<Known, 14> known{{{"linear32", make_linear32, {"sgd", 0.01}},
                                     {"odd", make_odd, {"sgd", 0.01}},
                                     {"batch_softmax", make_batch_softmax, {"sgd", 0.01}},
                                     {"batch_softmax_gathered", make_batch_softmax_gathered, {"sgd", 0.01}},
                                     {"adversarial", make_adversarial, {"sgd", 0.01}},
                                     {"adversarial_by_hand", make_adversarial_by_hand, {"sgd", 0.01}},
                                     {"mlp_small", make_mlp_small, {"sgd_momentum", 0.01}},
                                     {"mlp_25m", make_mlp_25m, {"sgd_momentum", 0.01}},
                                     {"mlp_400m", make_mlp_400m, {"sgd_momentum", 0.01}},
                                     {"resnet18_cifar", make_resnet18_cifar, {"sgd_momentum", 0.01}},
                                     {"gpt_mini", make_gpt_mini, {"adamw", 1e-3}},
                                     {"gpt_8", make_gpt_8, {"adamw", 1e-3}},
                                     {"table_4mib", make_table_4mib, {"sgd", 1}},
                                     {"table_4gib", make_table_4gib, {"sgd", 1}}}};
  std::string names;
  for (const auto& model : known) {
    if (name == model.name) {
      if (choice.kind.empty()) choice.kind = model.choice.kind;
      if (choice.lr <= 0) choice.lr = model.choice.lr;
      return model.make(choice);
    }
    names += std::string(names.empty() ? "" : ", ") + model.name;
  }
  throw cohort::UserError("--model=" + name + " is unknown; choose one of " + names);
}

}  // namespace numerics
