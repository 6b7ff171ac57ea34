// Doubly linked list through a node inside the element: no allocation, O(1) removal from the middle.
//
//   struct Qp : ListNode<struct ReadyTag> {...};  IntrusiveList<Qp, ReadyTag> ready;
//
// The list does not own its elements. An element is in at most one list per tag; is_linked() tells.
#pragma once

#include "base/assert.h"

namespace cw {

template <typename Tag>
struct ListNode {
  ListNode() = default;
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;
  ~ListNode() { CW_DASSERT(!is_linked()); }
  [[nodiscard]] bool is_linked() const { return next_ != nullptr; }
  void unlink() {
    CW_DASSERT(is_linked());
    prev_->next_ = next_;
    next_->prev_ = prev_;
    next_ = nullptr;
    prev_ = nullptr;
  }
  void unlink_if_linked() {
    if (is_linked()) {
      unlink();
    }
  }

 private:
  template <typename T, typename U>
  friend class IntrusiveList;
  ListNode* next_ = nullptr;
  ListNode* prev_ = nullptr;
};

template <typename T, typename Tag>
class IntrusiveList {
  using Node = ListNode<Tag>;

 public:
  IntrusiveList() { reset(); }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;
  ~IntrusiveList() {
    while (!empty()) {
      root_.next_->unlink();
    }
    root_.next_ = nullptr;
    root_.prev_ = nullptr;
  }

  [[nodiscard]] bool empty() const { return root_.next_ == &root_; }
  void push_back(T& element) {
    Node& node = element;
    CW_DASSERT(!node.is_linked());
    node.prev_ = root_.prev_;
    node.next_ = &root_;
    root_.prev_->next_ = &node;
    root_.prev_ = &node;
  }
  void push_front(T& element) {
    Node& node = element;
    CW_DASSERT(!node.is_linked());
    node.prev_ = &root_;
    node.next_ = root_.next_;
    root_.next_->prev_ = &node;
    root_.next_ = &node;
  }
  // `element` comes just before `other`, which is in this list.
  void insert_before(T& other, T& element) {
    Node& node = element;
    Node& next = other;
    CW_DASSERT(!node.is_linked() && next.is_linked());
    node.prev_ = next.prev_;
    node.next_ = &next;
    next.prev_->next_ = &node;
    next.prev_ = &node;
  }
  // nullptr when empty. The casts are of references: those of pointers would ask once more whether there is an element.
  [[nodiscard]] T* front() { return empty() ? nullptr : &static_cast<T&>(*root_.next_); }
  [[nodiscard]] const T* front() const { return empty() ? nullptr : &static_cast<const T&>(*root_.next_); }
  [[nodiscard]] T* pop_front() {
    T* element = front();
    if (element != nullptr) {
      static_cast<Node*>(element)->unlink();
    }
    return element;
  }
  // The element behind `element`, or nullptr at the end.
  [[nodiscard]] T* next(T& element) {
    Node* node = static_cast<Node&>(element).next_;
    return node == &root_ ? nullptr : &static_cast<T&>(*node);
  }
  [[nodiscard]] const T* next(const T& element) const {
    const Node* node = static_cast<const Node&>(element).next_;
    return node == &root_ ? nullptr : &static_cast<const T&>(*node);
  }

 private:
  void reset() {
    root_.next_ = &root_;
    root_.prev_ = &root_;
  }
  Node root_;
};

}  // namespace cw
