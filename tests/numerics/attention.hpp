// Which kernels scaled_dot_product_attention may take.
#pragma once

#include <string>

namespace numerics {

/// Lets attention be computed by "math" alone, the same sums on all devices; "fused" leaves the choice to LibTorch.
/// Throws UserError for another kind.
void choose_attention(const std::string& kind);

}  // namespace numerics
